"""What the endpoints of this process hold open: a forked child gives all of it back, at any moment.

Another thread may be opening or closing an endpoint at the fork. So a descriptor is opened and noted,
or closed and crossed out, under one lock that a fork waits for. What is done under it waits for nobody.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from yaffle_health.locks import NativeRLock
from yaffle_health.server import natives

FORK_WAIT_S: Final = 0.5
"""How long a fork waits for the lock at most: a directory on a dead network file system may hold it."""


class Closable(Protocol):
    """Holds descriptors until it is closed; closing it again does nothing."""

    def close(self) -> None:
        """Close them."""


T = TypeVar("T", bound=Closable)


class Descriptor:
    """A descriptor that is no object by itself."""

    __slots__ = ("fd",)

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def close(self) -> None:
        """Close it, once."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


class Held:
    """All that is open. `lock` is for what must not be half done at a fork; keep it short."""

    def __init__(self) -> None:
        self.lock = NativeRLock()
        self._things: set[Closable] = set()
        self._forking: set[int] = set()

    def __len__(self) -> int:
        return len(self._things)

    def open(self, make: Callable[[], T]) -> T:
        """Open something that a child is to close."""
        with self.lock:
            made = make()
            self._things.add(made)
            return made

    def close(self, thing: Closable) -> None:
        """Close it; again does nothing."""
        with self.lock:
            self._things.discard(thing)
            thing.close()

    def before_fork(self) -> None:
        """Let whoever is at it come to an end."""
        if self.lock.acquire(timeout=FORK_WAIT_S):
            self._forking.add(natives.get_ident())

    def after_fork_in_parent(self) -> None:
        """Let them go on."""
        if natives.get_ident() in self._forking:
            self._forking.discard(natives.get_ident())
            self.lock.release()

    def after_fork_in_child(self) -> None:
        """Close everything: it is the parent's, and no thread is here for it."""
        self.lock = NativeRLock()
        self._forking = set()
        things, self._things = self._things, set()
        for thing in things:
            with contextlib.suppress(OSError):
                thing.close()


held: Final = Held()
os.register_at_fork(
    before=held.before_fork,
    after_in_parent=held.after_fork_in_parent,
    after_in_child=held.after_fork_in_child,
)
