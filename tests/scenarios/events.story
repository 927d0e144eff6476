# The backend reported an event, and the check it woke says gone: one authoritative answer suffices.
nodes a b c
see status *=pass x2
see status a=gone! *=pass
plan
----
a=healthy b=healthy c=healthy
a=unhealthy b=healthy c=healthy
a recover (gone) attempt 1/3
