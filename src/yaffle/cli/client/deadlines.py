"""Deadlines and pauses of commands, which run in one thread and wait for other processes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from yaffle.engine.runtime.clock import SystemClock

CLOCK: Final = SystemClock()


class Deadline:
    """A bound that several waits share."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._began_s = CLOCK.monotonic_s()

    @property
    def passed_s(self) -> float:
        """Seconds since it was set."""
        return CLOCK.monotonic_s() - self._began_s

    @property
    def left_s(self) -> float:
        """Seconds until it; negative once it is over."""
        return self.seconds - self.passed_s

    @property
    def over(self) -> bool:
        """Whether it has passed."""
        return self.left_s <= 0

    def within(self, seconds: float) -> Deadline:
        """Return a nearer deadline, never later than this one."""
        return Deadline(min(seconds, max(0.0, self.left_s)))


def pause(seconds: float) -> None:
    """Wait; a signal's handler ends it early by raising."""
    threading.Event().wait(max(0.0, seconds))


_LIMIT: Final[ContextVar[Deadline | None]] = ContextVar("limit", default=None)


@contextmanager
def limited(deadline: Deadline) -> Iterator[None]:
    """Let what is asked meanwhile be asked again, where the server says so, until `deadline`."""
    token = _LIMIT.set(deadline)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def limit(otherwise_s: float) -> Deadline:
    """Return the command's own deadline; one that begins now where it has none."""
    return _LIMIT.get() or Deadline(otherwise_s)
