"""Status of stacks and their members, and whose they are."""
