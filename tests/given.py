"""The time that this process was given: a machine that stands still for seconds promises nothing.

For bounds that are promises: what takes too long takes too long by these clocks too, and what was
only held up, with everything else in this process, does not.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from yaffle.engine.runtime.clock import SystemClock

NAP_S: Final = 0.02


class Given:
    """Counts the naps of a thread of its own; one that took longer than it should counts as one."""

    def __init__(self) -> None:
        self._naps = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._nap, name="given", daemon=True)

    @property
    def s(self) -> float:
        """Seconds since the beginning, without those that were taken away."""
        return self._naps * NAP_S

    def _nap(self) -> None:
        while not self._over.is_set():
            time.sleep(NAP_S)
            self._naps += 1

    def __enter__(self) -> Given:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


class GivenClock(SystemClock):
    """A clock for the checks of `yaffle.testing`, which measure how long a call has taken."""

    def __init__(self, time_given: Given) -> None:
        super().__init__()
        self._given = time_given

    def monotonic_s(self) -> float:
        return self._given.s


@contextmanager
def given_clock() -> Iterator[GivenClock]:
    """Yield a clock that goes on while this process does."""
    with Given() as time_given:
        yield GivenClock(time_given)
