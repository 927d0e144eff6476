"""Balances watches over engines: even shares, few moves, no cluster for an engine that cannot see it.

Only a watch's row says who *does* watch (design/engines); this says who should. Every engine asks it
about the rows as it reads them, takes what nobody holds and is its own here, and gives up what it
holds and is another's here.

Whoever holds a watch keeps it while the load is even enough: a watch moves only where the engine
it leaves still has more than the one it goes to, and where the gap between the two is wider than
an average watch. Every move so shrinks the sum of the squared loads, hence moves come to an end,
whatever the engines see of each other meanwhile. What nobody holds goes by rendezvous hashing to
an engine that is below its fair share, so that engines with slightly different views agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import product
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from yaffle.model.ids import ClusterId, EngineId

SCORES_MAX: Final = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """One cluster that somebody has to watch."""

    cluster_id: ClusterId
    weight: int
    """Its members and one: an empty cluster costs something, too. At least 1."""
    owner: EngineId | None
    """The engine that holds it now; None where nobody does."""
    blind: frozenset[EngineId] = frozenset()
    """The engines that said that they cannot see its nodes."""


@lru_cache(maxsize=SCORES_MAX)
def score(engine: EngineId, cluster_id: ClusterId) -> int:
    """Return how much an engine wants a cluster: the same number in every process, for ever."""
    return int.from_bytes(blake2b(f"{engine}/{cluster_id}".encode(), digest_size=8).digest())


def share(
    watches: Iterable[Watched],
    live: AbstractSet[EngineId],
    late: AbstractSet[EngineId] = frozenset(),
) -> Mapping[ClusterId, EngineId]:
    """Return who should hold each watch; empty while no engine lives.

    `late`: those of the `live` that have missed a renewal. They keep what they hold and get nothing
    new, and so does an engine that is blind where another one is not: the trouble is its own.
    """
    if not live:
        return {}
    known = sorted(watches, key=lambda w: (-w.weight, w.cluster_id))
    wary = {*late, *_troubled(known, live)}
    table = _Table({w.cluster_id: _fit(w, live, wary) for w in known}, live)
    kept = [w for w in known if w.owner in table.fit[w.cluster_id]]
    free = [w for w in known if w.owner not in table.fit[w.cluster_id]]
    for watch in kept:
        assert watch.owner is not None  # noqa: S101 - narrows the type
        table.put(watch, watch.owner)
    table.fair = sum(w.weight for w in known) / len(live)
    table.mean = sum(w.weight for w in known) / max(1, len(known))
    for watch in free:
        table.put(watch, table.best_for(watch))
    # What nobody holds costs nothing to move: it evens out as much as it can before the rest.
    table.even_out(free)
    table.even_out(known)
    return table.holder


def _troubled(watches: Iterable[Watched], live: AbstractSet[EngineId]) -> set[EngineId]:
    """Return the engines that are blind for something that another one may well see.

    Where every engine is blind it is the cluster that is silent, which says nothing of any engine.
    """
    return {e for w in watches if live - w.blind for e in w.blind & live}


def _fit(
    watch: Watched, live: AbstractSet[EngineId], wary: AbstractSet[EngineId]
) -> AbstractSet[EngineId]:
    """Return who may hold a watch: never empty."""
    if not (wary or watch.blind):
        return live
    seeing = live - watch.blind
    if best := {e for e in seeing if e == watch.owner or e not in wary}:
        return best
    if seeing:
        return seeing
    # All are blind: who has it keeps it, since handing it round would settle nothing.
    return frozenset(e for e in live if e == watch.owner) or live


class _Table:
    """Watches laid out before the engines, and how much lies before each."""

    def __init__(
        self, fit: Mapping[ClusterId, AbstractSet[EngineId]], live: AbstractSet[EngineId]
    ) -> None:
        self.fit = fit
        self.load = dict.fromkeys(sorted(live), 0)
        self.holder: dict[ClusterId, EngineId] = {}
        self.fair = 0.0
        self.mean = 0.0

    def put(self, watch: Watched, engine: EngineId) -> None:
        """Give a watch to an engine, from whoever had it."""
        before = self.holder.get(watch.cluster_id)
        if before is not None:
            self.load[before] -= watch.weight
        self.holder[watch.cluster_id] = engine
        self.load[engine] += watch.weight

    def best_for(self, watch: Watched) -> EngineId:
        """Return the engine that wants the watch most of those with room, or has least to do."""
        may = self.fit[watch.cluster_id]
        room = [e for e in may if self.load[e] + watch.weight <= self.fair]
        if room:
            return max(room, key=lambda e: (score(e, watch.cluster_id), e))
        return min(may, key=lambda e: (self.load[e], -score(e, watch.cluster_id), e))

    def even_out(self, movable: Iterable[Watched]) -> None:
        """Move watches from those who have more to those who have less until no move is useful."""
        piles: dict[EngineId, dict[int, list[Watched]]] = {e: {} for e in self.load}
        for watch in movable:
            piles[self.holder[watch.cluster_id]].setdefault(watch.weight, []).append(watch)
        while self._move_one(piles):
            pass

    def _move_one(self, piles: Mapping[EngineId, dict[int, list[Watched]]]) -> bool:
        ranked = sorted(self.load, key=lambda e: (self.load[e], e))
        for giver, taker in product(reversed(ranked), ranked):
            gap = self.load[giver] - self.load[taker]
            watch = self._lift(piles[giver], taker, gap) if gap > self.mean else None
            if watch is not None:
                self.put(watch, taker)
                piles[taker].setdefault(watch.weight, []).append(watch)
                return True
        return False

    def _lift(self, pile: dict[int, list[Watched]], taker: EngineId, gap: int) -> Watched | None:
        """Take the watch from the pile that closes most of the gap; None if none is useful."""
        for weight in sorted((w for w in pile if w < gap), key=lambda w: (abs(2 * w - gap), w)):
            alike = pile[weight]
            for place in reversed(range(len(alike))):
                if taker in self.fit[alike[place].cluster_id]:
                    return alike.pop(place)
        return None
