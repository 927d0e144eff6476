"""Scaling: how many nodes a cluster has and which go first: sizes, policies, batches, names. Pure."""
