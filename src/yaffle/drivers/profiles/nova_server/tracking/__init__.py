"""Tracking of operations: what each is, its tags on the server, how far it is, stuck tasks."""
