# A person's request lifts the storm limit for that node. It does not lift the global stop.
nodes a b c
see status *=pass x2
see status *=refused x3
pause stop all
request b by ann
plan
----
a=healthy b=healthy c=healthy
a=unhealthy b=unhealthy c=unhealthy
b hold stopped pause=p1 scope=all owner=ann reason=planned work holders=1
a hold stopped pause=p1 scope=all owner=ann reason=planned work holders=1
c hold stopped pause=p1 scope=all owner=ann reason=planned work holders=1

resume p1
plan
----
b recover (requested by ann) attempt 1/3 overriding storm
a hold storm sick=3 suspect=0 threshold=2 capacity=3 in_flight=1
c hold storm sick=3 suspect=0 threshold=2 capacity=3 in_flight=1
