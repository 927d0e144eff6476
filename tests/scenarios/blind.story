# Nothing answers, not even the reference target: it is us, and nobody is touched.
policy max_unhealthy=100%
nodes a b c
references down
see status *=pass x2
see status *=timeout x3
plan
----
a=healthy b=healthy c=healthy
a=unhealthy b=unhealthy c=unhealthy
a hold blind asked=3 answered=0 references_asked=1 references_answered=0
b hold blind asked=3 answered=0 references_asked=1 references_answered=0
c hold blind asked=3 answered=0 references_asked=1 references_answered=0

# The reference answers again while the nodes do not: it is them.
references up
plan
----
a recover (silent) attempt 1/3
b recover (silent) attempt 1/3
c hold in-flight in_flight=2 limit=2
