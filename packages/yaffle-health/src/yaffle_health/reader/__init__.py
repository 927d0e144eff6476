"""Asking another process how it is: either shape, over TCP or a UNIX socket, in bounded time."""

from __future__ import annotations

from yaffle_health.reader.address import target
from yaffle_health.reader.ask import DEFAULT_TIMEOUT_S, Target, read, read_all
from yaffle_health.reader.reading import Problem, Reading

__all__ = ["DEFAULT_TIMEOUT_S", "Problem", "Reading", "Target", "read", "read_all", "target"]
