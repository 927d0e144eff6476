"""What every driver of a port must keep, as functions that raise AssertionError with a sentence."""
