"""What every request passes before its route: request log, then access."""
