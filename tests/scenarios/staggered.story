# A correlated failure never arrives all at once. When the first node has fallen, its neighbours have
# failed once or twice: as suspects they count, and the first is not sacrificed before the storm is seen.
nodes a b c d e
see status *=pass x2
see status a=timeout *=pass
see status a,b=timeout *=pass
----
a=healthy b=healthy c=healthy d=healthy e=healthy
a=suspect b=healthy c=healthy d=healthy e=healthy
a=suspect b=suspect c=healthy d=healthy e=healthy

see status a,b,c=timeout *=pass
plan
----
a=unhealthy b=suspect c=suspect d=healthy e=healthy
a hold storm sick=1 suspect=2 threshold=2 capacity=5 in_flight=0

see status a,b,c=timeout *=pass
plan
----
a=unhealthy b=unhealthy c=suspect d=healthy e=healthy
a hold storm sick=2 suspect=1 threshold=2 capacity=5 in_flight=0
b hold storm sick=2 suspect=1 threshold=2 capacity=5 in_flight=0

# A false alarm of the two others lets the first be healed.
see status a=timeout *=pass x2
plan
----
a=unhealthy b=healthy c=healthy d=healthy e=healthy
a recover (silent) attempt 1/3
