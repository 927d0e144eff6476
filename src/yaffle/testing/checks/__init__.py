"""Checks of what every driver of a port must keep; they raise AssertionError with a sentence."""
