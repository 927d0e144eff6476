"""Deadlines and pauses of commands, which run in one thread and wait for other processes."""

from __future__ import annotations

import threading
from typing import Final

from yaffle.engine.clock import SystemClock

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
