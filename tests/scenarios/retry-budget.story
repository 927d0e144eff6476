# Two attempts, resting longer each time; then a person is needed, and rest alone changes nothing.
policy attempts=2
nodes a b c
see status *=pass x2
see status a=timeout *=pass x3
plan
end a badly
plan
----
a=healthy b=healthy c=healthy
a=unhealthy b=healthy c=healthy
a recover (silent) attempt 1/2
a=unhealthy b=healthy c=healthy
a hold cooling-down until 60s attempts=1 allowed=2 left_s=60.0
look again in 60s

see status a=timeout *=pass x6
plan
end a badly
plan
----
a=unhealthy b=healthy c=healthy
a recover (silent) attempt 2/2
a=unhealthy b=healthy c=healthy
a hold needs-human attempts=2 allowed=2

see status a=timeout *=pass x60
plan
----
a=unhealthy b=healthy c=healthy
a hold needs-human attempts=2 allowed=2

acknowledge a
plan
----
a recover (silent) attempt 1/2
