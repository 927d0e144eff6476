# The node recovered while nobody watched: the successor sees it well and acts on nothing old.
nodes a b c
see status *=pass x2
see status a=timeout *=pass x3
resettle
see status *=pass x2
plan
----
a=healthy b=healthy c=healthy
a=unhealthy b=healthy c=healthy
a=unhealthy(unsettled) b=healthy(unsettled) c=healthy(unsettled)
a=healthy b=healthy c=healthy
nothing to decide
