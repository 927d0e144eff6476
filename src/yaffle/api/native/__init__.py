"""One file per noun; each turns requests into calls of commands, queries and why."""
