# ALL_FAILED with one mode that cannot be asked is not unhealthy: the unknown one might have passed.
policy modes=status,url conditional=ALL_FAILED
nodes a b
see status a=unknown b=pass
also url a=timeout b=pass
see status a=unknown b=pass
also url a=timeout b=pass
see status a=unknown b=pass
also url a=timeout b=pass
plan
----
a=initializing(unsettled) b=initializing(unsettled)
a=initializing(unsettled) b=initializing(unsettled)
a=initializing(unsettled) b=healthy
a=initializing(unsettled) b=healthy
a=initializing(unsettled) b=healthy
a=initializing b=healthy
nothing to decide

# Once the other mode can be asked and fails as well, it is.
see status a=down b=pass
also url a=timeout b=pass
see status a=down b=pass
also url a=timeout b=pass
see status a=down b=pass
also url a=timeout b=pass
plan
----
a=initializing b=healthy
a=initializing b=healthy
a=initializing b=healthy
a=initializing b=healthy
a=unhealthy b=healthy
a=unhealthy b=healthy
a recover (down) attempt 1/3
