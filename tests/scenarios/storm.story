# Three of five go silent together: more than 40 %, so all three are held, each with the numbers.
nodes a b c d e
see status *=pass x2
----
a=healthy b=healthy c=healthy d=healthy e=healthy

see status a,b,c=timeout *=pass x3
plan
----
a=unhealthy b=unhealthy c=unhealthy d=healthy e=healthy
a hold storm sick=3 suspect=0 threshold=2 capacity=5 in_flight=0
b hold storm sick=3 suspect=0 threshold=2 capacity=5 in_flight=0
c hold storm sick=3 suspect=0 threshold=2 capacity=5 in_flight=0

# Held until fewer are sick: c comes back by itself, and two of five are within the limit.
see status a,b=timeout *=pass x2
plan
----
a=unhealthy b=unhealthy c=healthy d=healthy e=healthy
a recover (silent) attempt 1/3
b recover (silent) attempt 1/3
