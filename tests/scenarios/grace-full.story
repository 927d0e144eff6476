# Documents up to 1.2: the whole grace protects, also a node that has been well in between.
policy grace_ends_early=no rise=1 fall=1 grace=60s
nodes a b c
see status *=pass
restart a
see status *=pass
see status a=timeout *=pass x4
plan
----
a=healthy b=healthy c=healthy
a=initializing(unsettled) b=healthy c=healthy
a=healthy b=healthy c=healthy
a=suspect b=healthy c=healthy
nothing to decide

see status a=timeout *=pass
plan
----
a=unhealthy b=healthy c=healthy
a recover (silent) attempt 1/3
