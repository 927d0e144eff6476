"""Planning of what is to be done now: planner, guards, budgets, pauses, attribution. Pure."""
