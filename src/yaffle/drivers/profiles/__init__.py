"""Drivers of `ports.Profile`: how nodes of one kind are built, read, changed and deleted."""
