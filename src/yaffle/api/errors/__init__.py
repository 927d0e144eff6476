"""Refusals in one shape, in the words of the API that was asked."""
