# when_exceeded: slow heals one at a time through a storm.
policy when_exceeded=slow
nodes a b c
see status *=pass x2
see status *=refused x3
plan
----
a=healthy b=healthy c=healthy
a=unhealthy b=unhealthy c=unhealthy
a recover (refusing) attempt 1/3
b hold storm sick=3 suspect=0 threshold=2 capacity=3 in_flight=1
c hold storm sick=3 suspect=0 threshold=2 capacity=3 in_flight=1

end a well
see status a=pass *=refused
plan
----
a=initializing(unsettled) b=unhealthy c=unhealthy
a=initializing(unsettled) b=unhealthy c=unhealthy
b recover (refusing) attempt 1/3
c recover (refusing) attempt 1/3
