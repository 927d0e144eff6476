"""Routes of our own API: one file per noun turns requests into commands, queries and why."""
