# The backend says running, the URL is silent. With ALL_FAILED that is gray and no failure.
policy modes=status,url conditional=ALL_FAILED
nodes a b
see status *=pass
also url *=pass
see status *=pass
also url *=pass
see status *=pass
also url a=timeout b=pass
see status *=pass
also url a=timeout b=pass
see status *=pass
also url a=timeout b=pass
plan
----
a=initializing(unsettled) b=initializing(unsettled)
a=initializing(unsettled) b=initializing(unsettled)
a=healthy b=healthy
a=healthy b=healthy
a=healthy b=healthy
a=healthy b=healthy
a=healthy b=healthy
a=healthy b=healthy
a=healthy b=healthy
a=healthy(gray) b=healthy
nothing to decide

# With ANY_FAILED the same observations are a verdict.
policy conditional=ANY_FAILED
wait 0s
plan
----
a=unhealthy(gray) b=healthy
a recover (silent) attempt 1/3
