# At most two at once, also within one pass.
nodes a b c d e f g h i j
see status *=pass x2
see status a,b,c=down *=pass x3
plan
----
a=healthy b=healthy c=healthy d=healthy e=healthy f=healthy g=healthy h=healthy i=healthy j=healthy
a=unhealthy b=unhealthy c=unhealthy d=healthy e=healthy f=healthy g=healthy h=healthy i=healthy j=healthy
a recover (down) attempt 1/3
b recover (down) attempt 1/3
c hold in-flight in_flight=2 limit=2

end a well
see status a=pass b,c=down *=pass
plan
----
a=initializing(unsettled) b=unhealthy(recovering) c=unhealthy d=healthy e=healthy f=healthy g=healthy h=healthy i=healthy j=healthy
a=initializing(unsettled) b=unhealthy(recovering) c=unhealthy d=healthy e=healthy f=healthy g=healthy h=healthy i=healthy j=healthy
c recover (down) attempt 1/3
