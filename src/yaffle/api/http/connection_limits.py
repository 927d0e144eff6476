"""Connection limits: in all, for each address, and a reserve for emergencies.

When there is no room left, whoever has owed us something for longest goes: silent connections and slow
ones never keep others out. Those whom *we* owe an answer stay.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol

import structlog

log = structlog.get_logger()

RESERVED: Final = 32
"""Places beside the others: a connection there is answered only what must be answered at any time."""
PACE_S: Final = 1.0
FILES_MAX: Final = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The number of connections that there may be."""

    most: int
    of_peer: int
    reserved: int = RESERVED

    @classmethod
    def within(cls, most: int, of_peer: int, files: int) -> Limits:
        """Return the limits that leave half of the process's descriptors to everything else."""
        most = max(1, min(most, files // 2 - RESERVED))
        return cls(most=most, of_peer=min(of_peer, most))


def files_max() -> int:
    """Return how many descriptors this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft


def raise_files() -> None:
    """Raise the soft limit of descriptors to the hard one, within reason."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_MAX if hard == resource.RLIM_INFINITY else min(FILES_MAX, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        # A sandbox may forbid it; `Limits` go by what there is.
        with suppress(OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Guest(Protocol):
    """A connection, as far as it needs a place."""

    peer: str
    narrow: bool
    """Whether it was let in beside the others, for what must be answered at any time."""

    def look(self, now_s: float) -> None:
        """End it if it is overdue."""
        ...

    def abort(self) -> None:
        """End it now."""
        ...


class Room:
    """The connections: from where, and who of them owes us something since when."""

    def __init__(self, limits: Limits, *, shares: Callable[[str], bool] = lambda _: False) -> None:
        """`shares`: whether many callers come from an address, which so has no share of its own."""
        self._limits = limits
        self.shares = shares
        self._of_peer: dict[str, set[Guest]] = {}
        self._owing: dict[Guest, None] = {}
        """In the order in which they began to owe."""
        self._all: set[Guest] = set()
        self._turned_away = 0

    def __len__(self) -> int:
        """Return how many are connected."""
        return len(self._all)

    def take(self, newcomer: Guest) -> bool:
        """Give a place to a connection, if need be that of another; False where there is none."""
        same = self._of_peer.get(newcomer.peer, set())
        if len(same) >= self._limits.of_peer and not self.shares(newcomer.peer):
            if not self._evict(same):
                self._turned_away += 1
                return False
        elif len(self._all) >= self._limits.most and not (
            self._evict(self._greediest()) or self._evict(self._all)
        ):
            if len(self._all) >= self._limits.most + self._limits.reserved:
                self._turned_away += 1
                return False
            newcomer.narrow = True
        self._all.add(newcomer)
        self._of_peer.setdefault(newcomer.peer, set()).add(newcomer)
        self._owing[newcomer] = None
        return True

    def leave(self, gone: Guest) -> None:
        """Take a place back."""
        self._all.discard(gone)
        self._owing.pop(gone, None)
        same = self._of_peer.get(gone.peer)
        if same is not None:
            same.discard(gone)
            if not same:
                del self._of_peer[gone.peer]

    def turn(self, one: Guest, *, theirs: bool) -> None:
        """Note whose turn it is."""
        self._owing.pop(one, None)
        if theirs and one in self._all:
            self._owing[one] = None

    def make_room(self, count: int) -> None:
        """End those who have owed for longest."""
        for one in list(self._owing)[:count]:
            self._end(one)

    async def keep(self) -> None:
        """End who is overdue, once a second, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            for one in list(self._all):
                one.look(loop.time())
            if self._turned_away:
                log.warning("connections turned away", count=self._turned_away, open=len(self))
                self._turned_away = 0
            await asyncio.sleep(PACE_S)

    def _greediest(self) -> set[Guest]:
        """Return the connections of the address that has most of them."""
        return max(self._of_peer.values(), key=len, default=set())

    def _evict(self, among: set[Guest]) -> bool:
        """End the one of them that has owed for longest; False where none owes anything."""
        for one in self._owing:
            if one in among:
                self._end(one)
                return True
        return False

    def _end(self, one: Guest) -> None:
        # Its place is free at once; its descriptor is with the next turn of the loop.
        self.leave(one)
        one.abort()
