"""What a process that shows its health apart and the helper that shows it have between them."""
