"""Servers that are nobody's nodes: listed, inspected, taken over."""
