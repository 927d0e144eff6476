# Ten minutes of good health, and the attempts are forgotten.
nodes a b c
see status *=pass x2
see status a=timeout *=pass x3
plan
end a well
see status *=pass x50
see status a=timeout *=pass x3
plan
end a well
see status *=pass x62
see status a=timeout *=pass x3
plan
----
a=healthy b=healthy c=healthy
a=unhealthy b=healthy c=healthy
a recover (silent) attempt 1/3
a=initializing(unsettled) b=healthy c=healthy
a=healthy b=healthy c=healthy
a=unhealthy b=healthy c=healthy
a recover (silent) attempt 2/3
a=initializing(unsettled) b=healthy c=healthy
a=healthy b=healthy c=healthy
a=unhealthy b=healthy c=healthy
a recover (silent) attempt 1/3
