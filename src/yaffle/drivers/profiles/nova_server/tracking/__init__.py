"""One operation on its way: what it is, its tags on the server, how far it is, stuck tasks."""
