# A user's action holds the node: the recovery waits for it.
nodes a b c
see status *=pass x2
busy a NODE_UPDATE
see status a=down *=pass x3
plan
----
a=healthy b=healthy c=healthy
a=unhealthy b=healthy c=healthy
a hold node-busy action=NODE_UPDATE

busy a
plan
----
a recover (down) attempt 1/3
