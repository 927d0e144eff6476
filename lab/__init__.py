"""Labs: real systems that Yaffle looks after, started privately on one machine, and broken on purpose."""
