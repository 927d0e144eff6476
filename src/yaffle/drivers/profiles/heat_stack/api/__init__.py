"""The requests to Heat, and what they answer."""
