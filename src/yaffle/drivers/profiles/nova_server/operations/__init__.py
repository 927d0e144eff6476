"""One file per operation on a server, and what is asked before it."""
