# The clock goes back an hour: answers are heard at once, and old beliefs count no more.
nodes a b c
see status *=pass x2
see status a=timeout *=pass x2
wait -3600s
see status a=timeout *=pass
plan
----
a=healthy b=healthy c=healthy
a=suspect b=healthy c=healthy
a=unknown b=unknown c=unknown
a=suspect b=unknown c=unknown
nothing to decide

see status a=timeout *=pass x2
plan
----
a=unhealthy b=healthy c=healthy
a recover (silent) attempt 1/3
