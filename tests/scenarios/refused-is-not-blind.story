# A refused connection is an answer: the question arrived, so our network works.
policy max_unhealthy=100%
nodes a b c
references down
see status *=pass x2
see status a=refused b,c=timeout x3
plan
----
a=healthy b=healthy c=healthy
a=unhealthy b=unhealthy c=unhealthy
a recover (refusing) attempt 1/3
b recover (silent) attempt 1/3
c hold in-flight in_flight=2 limit=2
