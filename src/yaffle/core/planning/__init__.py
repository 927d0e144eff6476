"""What is to be done about a cluster now: planner, guards, budgets, pauses, attribution. Pure."""
