# A mark outvotes every pass, outlives a restart, and only a lift removes it.
nodes a b c
see status *=pass x2
mark a by ann
see status *=pass x3
plan
----
a=healthy b=healthy c=healthy
a=unhealthy b=healthy c=healthy
a=unhealthy b=healthy c=healthy
a recover (marked) attempt 1/3

end a badly
see status *=pass
lift a
plan
----
a=unhealthy b=healthy c=healthy
a=unhealthy b=healthy c=healthy
a=healthy b=healthy c=healthy
nothing to decide
