"""How stacks and their members are, and whose they are."""
