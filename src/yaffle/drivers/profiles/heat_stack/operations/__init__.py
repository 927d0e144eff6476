"""One file per operation on a stack, and what operations share."""
