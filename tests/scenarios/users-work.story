# A user takes nodes away: nobody is healed until that is over, however ill.
nodes a b c
busy a CLUSTER_SCALE_IN
busy b CLUSTER_SCALE_IN
busy c CLUSTER_SCALE_IN
see status *=pass x2
see status b=down *=pass x3
plan
----
a=healthy b=healthy c=healthy
a=healthy b=unhealthy c=healthy
b hold node-busy action=CLUSTER_SCALE_IN

busy a
busy b
busy c
plan
----
b recover (down) attempt 1/3
