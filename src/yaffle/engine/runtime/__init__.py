"""Runtime of the engine: its context, clock, session lease, wake-ups and metrics."""
