# A successor knows the health that was stored and nothing of what was observed: it counts afresh.
nodes a b c
see status *=pass x2
see status a=timeout *=pass x3
resettle
plan
----
a=healthy b=healthy c=healthy
a=unhealthy b=healthy c=healthy
a=unhealthy(unsettled) b=healthy(unsettled) c=healthy(unsettled)
a hold resettling

see status a=timeout *=pass x2
plan
----
a=unhealthy(unsettled) b=healthy c=healthy
a hold resettling

see status a=timeout *=pass
plan
----
a=unhealthy b=healthy c=healthy
a recover (silent) attempt 1/3
