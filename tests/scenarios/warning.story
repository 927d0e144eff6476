# A warning is a pass, and gray: nobody is recovered for it.
nodes a b
see status *=pass x2
see status a=warn b=pass x3
plan
----
a=healthy b=healthy
a=healthy(gray) b=healthy
nothing to decide
