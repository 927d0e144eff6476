"""Facts about everything that healing depends on, each with a verdict and what to do about it."""
