# A node that goes up and down is doubted and not judged: it never fails three times in a row.
nodes a b c
see status *=pass x2
see status a=timeout *=pass x2
see status *=pass
see status a=timeout *=pass x2
see status *=pass
plan
----
a=healthy b=healthy c=healthy
a=suspect b=healthy c=healthy
a=healthy b=healthy c=healthy
a=suspect b=healthy c=healthy
a=healthy b=healthy c=healthy
nothing to decide

# Judged at last, it does not return with one pass: it has to rise.
see status a=timeout *=pass x3
see status *=pass
see status a=timeout *=pass
plan
----
a=unhealthy b=healthy c=healthy
a=unhealthy b=healthy c=healthy
a=unhealthy b=healthy c=healthy
a recover (silent) attempt 1/3
