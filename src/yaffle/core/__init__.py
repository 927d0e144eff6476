"""The decisions: pure functions over frozen values. No clock, no I/O, no logging, no async."""
