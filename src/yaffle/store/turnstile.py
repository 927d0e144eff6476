"""Takes turns between processes that write to one SQLite file, so that none starves.

SQLite lets one writer in at a time and has the others ask again after ever longer pauses, so a process
with an endless queue finds the file free each time, and another one hardly ever. Here each writer holds
the entrance while it waits for the file: whoever waits alone comes next, and two writers alternate.
Mutual exclusion stays SQLite's own business: a lock that cannot be had costs fairness, and nothing else.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

ENTRANCE: Final = 1 << 20
FILE: Final = ENTRANCE + 1
"""Bytes of the lock file, behind the pid that stands in it; nothing is ever written there."""
IMPATIENT_S: Final = 0.5
"""For a turn, after one that did not come: somebody holds it who does not write at all."""
PAUSE_S: Final = 0.001
"""Shorter than a commit, so that the entrance is found open while the other writer is at work."""


class Turnstile:
    """Record locks on the database's lock file; the kernel frees them on any death."""

    def __init__(self, lock_file: Path, *, wait_s_max: float, now_s: Callable[[], float]) -> None:
        self._descriptor: int | None = None
        self._wait_s_max = wait_s_max
        self._came = True
        self._now_s = now_s
        self._pause = threading.Event()
        with contextlib.suppress(OSError):
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(lock_file, flags, 0o600)

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for our turn, `wait_s_max` at most, and hold it while the block lasts."""
        end_s = self._now_s() + (self._wait_s_max if self._came else IMPATIENT_S)
        at_entrance = self._take(ENTRANCE, end_s)
        self._came = has_turn = self._take(FILE, end_s)
        if at_entrance:
            self._release(ENTRANCE)
        try:
            yield
        finally:
            if has_turn:
                self._release(FILE)

    def close(self) -> None:
        """Give everything back; idempotent."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _take(self, place: int, end_s: float) -> bool:
        while self._descriptor is not None:
            try:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            except (BlockingIOError, PermissionError):
                if self._now_s() > end_s:
                    return False
                self._pause.wait(PAUSE_S)
            except OSError:
                return False
            else:
                return True
        return False

    def _release(self, place: int) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, place)
