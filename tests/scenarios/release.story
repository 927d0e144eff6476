# An operator releases the storm limit for a minute: the in-flight cap still holds.
nodes a b c d
see status *=pass x2
see status *=refused x3
release 60s
plan
----
a=healthy b=healthy c=healthy d=healthy
a=unhealthy b=unhealthy c=unhealthy d=unhealthy
a recover (refusing) attempt 1/3
b recover (refusing) attempt 1/3
c hold in-flight in_flight=2 limit=2
d hold in-flight in_flight=2 limit=2

end a well
see status a=pass *=refused
plan
----
a=initializing(unsettled) b=unhealthy(recovering) c=unhealthy d=unhealthy
a=initializing(unsettled) b=unhealthy(recovering) c=unhealthy d=unhealthy
c recover (refusing) attempt 1/3
d hold in-flight in_flight=2 limit=2

see status a=pass *=refused x6
end * badly
see status a=pass *=refused x6
plan
----
a=healthy b=unhealthy(recovering) c=unhealthy(recovering) d=unhealthy
a=healthy b=unhealthy c=unhealthy d=unhealthy
a=healthy b=unhealthy c=unhealthy d=unhealthy
b hold storm sick=3 suspect=0 threshold=2 capacity=4 in_flight=0
c hold storm sick=3 suspect=0 threshold=2 capacity=4 in_flight=0
d hold storm sick=3 suspect=0 threshold=2 capacity=4 in_flight=0
