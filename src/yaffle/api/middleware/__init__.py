"""Middleware that every request passes before its route: request log, then access."""
