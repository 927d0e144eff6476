"""Concrete drivers, one folder per port. No driver imports another; only wiring names them."""
