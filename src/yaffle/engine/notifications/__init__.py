"""Delivers what the outbox holds."""
