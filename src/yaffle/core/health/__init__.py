"""Health of observations: votes, hysteresis, staleness, transitions, status codes. Pure."""
