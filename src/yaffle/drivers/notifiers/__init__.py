"""Notifiers: one file per kind of receiver."""
