"""Whether we hear: what all sources together are worth, and how often there was a gap in it.

A gap is counted where it ends, because what was missed in it can only be asked for then. While any
source is away nobody can say what it would have told, so that none is trusted.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from yaffle.ports.detector import ListenerStatus

READS: Final = 8
"""Readings of whole watches of a kind that are under way at once: after a gap all want one."""


class ChannelHealth:
    """Shared by all sources and watches of one detector."""

    def __init__(self, sources: Iterable[str], on_gap: Callable[[], None]) -> None:
        self.era = 0
        """How many gaps there were."""
        self._sources = frozenset(sources)
        self._told: dict[str, ListenerStatus] = {}
        """How each source is that has come to something."""
        self._hearing: dict[str, object] = {}
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._on_gap = on_gap
        self._tickets = itertools.count(1)

    @property
    def listening(self) -> bool:
        """Whether everything that is sent reaches us; without any source, nothing ever does."""
        return bool(self._sources) and len(self._hearing) == len(self._sources)

    def heard(self, source: str, by: object) -> None:
        """Note that a source is listened to from now on, over the connection `by`."""
        self._hearing[source] = by
        self.missed()

    def lost(self, source: str, by: object) -> None:
        """Note that a connection is away; it may be one that another has followed already."""
        if self._hearing.get(source) is by:
            del self._hearing[source]

    def tell(self, source: str, detail: str, *, fault: str = "", advice: str = "") -> None:
        """Remember how a source is, for a person who asks."""
        self._told[source] = ListenerStatus(name=source, detail=detail, fault=fault, advice=advice)

    def told(self) -> Sequence[ListenerStatus]:
        """Return every source, and how it is."""
        return [
            self._told.get(source) or ListenerStatus(name=source, detail="not connected yet")
            for source in sorted(self._sources)
        ]

    def missed(self) -> None:
        """Something that was sent did not reach us, and the gap is over: everybody is read again."""
        self.era += 1
        self._on_gap()

    def turn(self, kind: str) -> asyncio.Semaphore:
        """Return what a reading of nodes of that profile type waits for; a slow kind delays no other."""
        return self._turns.setdefault(kind, asyncio.Semaphore(READS))

    def ticket(self) -> int:
        """Return the next number of a reading."""
        return next(self._tickets)
