"""Drivers of `ports.Fencer`: kill the old copy and prove it."""
