# The guard always leaves room for one in a small group: 40 % of three is two.
nodes a b c
see status *=pass x2
see status a=timeout *=pass x2
plan
----
a=healthy b=healthy c=healthy
a=suspect b=healthy c=healthy
nothing to decide

see status a=timeout *=pass
plan
----
a=unhealthy b=healthy c=healthy
a recover (silent) attempt 1/3

# It counts as sick while it is in recovery, and nobody decides upon it twice.
plan
----
nothing to decide

end a well
see status *=pass x2
plan
----
a=initializing(unsettled) b=healthy c=healthy
a=healthy b=healthy c=healthy
nothing to decide
