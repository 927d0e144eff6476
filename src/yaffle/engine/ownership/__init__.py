"""Ownership: which engine watches which cluster, and which one does what a single one does for all."""
