"""From observations to one health: votes, hysteresis, staleness, transitions, status codes. Pure."""
