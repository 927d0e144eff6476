# The mark is lifted while grace protects a node that still fails: nothing of the mark is left to act on.
policy grace=300s
nodes a b c
see status *=pass x2
restart a
mark a by ann
see status a=timeout *=pass x3
lift a
plan
----
a=healthy b=healthy c=healthy
a=initializing(unsettled) b=healthy c=healthy
a=unhealthy(unsettled) b=healthy c=healthy
a=unhealthy b=healthy c=healthy
a=initializing b=healthy c=healthy
nothing to decide
