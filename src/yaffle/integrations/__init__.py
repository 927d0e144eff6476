"""Integrations that several drivers share, which never import each other."""
