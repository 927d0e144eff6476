# 60 % of one zone: that zone is held, and the single failure in the other zone is healed.
policy domain=availability_zone
nodes a1 a2 a3 a4 a5 in east
nodes b1 b2 b3 b4 b5 in west
see status *=pass x2
see status a1,a2,a3,b1=timeout *=pass x3
plan
----
a1=healthy a2=healthy a3=healthy a4=healthy a5=healthy b1=healthy b2=healthy b3=healthy b4=healthy b5=healthy
a1=unhealthy a2=unhealthy a3=unhealthy a4=healthy a5=healthy b1=unhealthy b2=healthy b3=healthy b4=healthy b5=healthy
a1 hold domain-storm domain=east sick=3 suspect=0 threshold=2
a2 hold domain-storm domain=east sick=3 suspect=0 threshold=2
a3 hold domain-storm domain=east sick=3 suspect=0 threshold=2
b1 recover (silent) attempt 1/3
