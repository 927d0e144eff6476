# From 1.3 on grace ends with the rise: whoever has been well is judged as any other.
policy grace=300s
nodes a b c
see status *=pass x2
restart a
see status a=timeout *=pass x4
plan
----
a=healthy b=healthy c=healthy
a=initializing(unsettled) b=healthy c=healthy
a=initializing b=healthy c=healthy
nothing to decide

see status *=pass x2
see status a=timeout *=pass x3
plan
----
a=healthy b=healthy c=healthy
a=unhealthy b=healthy c=healthy
a recover (silent) attempt 1/3
