"""From observations to stored health: checks, votes, attribution to hosts, self-check."""
