"""Recovery actions that somebody else carries out: one package per way of asking."""
