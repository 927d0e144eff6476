# Planned work on one node: it is left alone, is no storm, and is healed when the window has passed.
policy max_unhealthy=1
nodes a b c
see status *=pass x2
pause maintenance node:a for 60s
see status a,b=timeout *=pass x3
plan
----
a=healthy b=healthy c=healthy
a=unhealthy b=unhealthy c=healthy
a hold maintenance until 30s pause=p1 scope=node owner=ann reason=planned work holders=1
b recover (silent) attempt 1/3
look again in 30s

see status a=timeout *=pass x2
plan
----
a=unhealthy b=healthy(recovering) c=healthy
a hold maintenance until 10s pause=p1 scope=node owner=ann reason=planned work holders=1
look again in 10s

see status a=timeout *=pass
end b well
plan
----
a=unhealthy b=healthy(recovering) c=healthy
a=unhealthy b=initializing(unsettled) c=healthy
a recover (silent) attempt 1/3
