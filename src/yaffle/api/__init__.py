"""The HTTP face of one service: our own API under /yaffle/v1, /health and /metrics."""
