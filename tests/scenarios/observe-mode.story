# Observe mode decides and says what it would do; a person's request is the only hand that acts.
policy mode=observe
nodes a b c
see status *=pass x2
see status a=timeout *=pass x3
plan
----
a=healthy b=healthy c=healthy
a=unhealthy b=healthy c=healthy
a hold observe-mode would=['RECREATE']

request a by ann
plan
----
a recover (requested by ann) attempt 1/3 overriding observe-mode
