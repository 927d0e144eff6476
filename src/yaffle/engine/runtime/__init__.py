"""What the whole engine runs on: its context, clock, session lease, wake-ups and metrics."""
