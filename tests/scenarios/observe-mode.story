# Observe mode decides and says what it would do; a person's request is the only hand that acts.
policy mode=observe
nodes a b c
see status *=pass x2
see status a=timeout *=pass x3
plan
----
a=healthy b=healthy c=healthy
a=unhealthy b=healthy c=healthy
a hold observe-mode would=['RECREATE'] sick=1 suspect=0 threshold=2 in_flight=0 max_in_flight=2 attempt=1 attempts_allowed=3

request a by ann
plan
----
a recover (requested by ann) attempt 1/3 overriding observe-mode
