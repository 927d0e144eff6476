"""Detection: checks, votes, attribution to hosts and self-check make stored health of observations."""
