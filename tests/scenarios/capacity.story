# The share is of the desired capacity: eight of ten nodes were never created, and that buys no guard.
nodes a b
policy desired_capacity=10
see status *=pass x2
see status *=down x3
plan
----
a=healthy b=healthy
a=unhealthy b=unhealthy
a recover (down) attempt 1/3
b recover (down) attempt 1/3
