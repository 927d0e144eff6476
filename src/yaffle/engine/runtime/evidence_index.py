"""Index of the observations of all clusters of this engine: evidence that the observer is partitioned.

One node's silence proves nothing. An engine that is cut off and holds many clusters of one node each
would find every one of them dead and itself well; so where a cluster is too small to tell, all of
them are asked (design/failure#guards). A cluster that was given away because it could not be seen goes
on bearing witness for a while: what is left over by itself would prove nothing again.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol

from yaffle.core.planning.observer_partition import Heard, Look, hear, looks, silent_by

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from yaffle.core.health.verdict import NodeMemory
    from yaffle.core.planning.host_attribution import Spoken
    from yaffle.model.ids import ClusterId, NodeId

KEPT_S: Final = 1.0
"""A thousand clusters that fall silent at once are counted once, not a thousand times."""
ROADS_MAX: Final = 16
WITNESS_US: Final = 120_000_000
"""How long after a silent cluster was given away another silence may begin, its interval apart."""
WITNESSES_MAX: Final = 1000


class TrackedHealth(Protocol):
    """The health states of one watcher's nodes."""

    @property
    def memories(self) -> Mapping[NodeId, NodeMemory]:
        """All of it, as of now."""
        ...

    @property
    def hosts(self) -> Mapping[str, Collection[NodeId]]:
        """The nodes on each machine."""
        ...

    def on_host(self, name: str) -> Iterable[NodeMemory]:
        """Return those of the nodes on one machine."""
        ...


class EvidenceIndex:
    """The health states of every watcher of this engine, and the clusters it is blind for."""

    def __init__(self) -> None:
        self.blind: set[ClusterId] = set()
        """Those whose nodes are held because it may be us."""
        self._beliefs: dict[ClusterId, TrackedHealth] = {}
        self._given: dict[ClusterId, tuple[int, Mapping[Look, int]]] = {}
        self._known: dict[frozenset[str], tuple[float, Heard]] = {}
        self.words: dict[str, Spoken] = {}
        """What the backend said of hosts when it was asked because of a failure."""

    def join(self, ident: ClusterId, beliefs: TrackedHealth) -> None:
        """Add a watcher."""
        self._beliefs[ident] = beliefs
        self._given.pop(ident, None)

    def leave(self, ident: ClusterId, beliefs: TrackedHealth, now_us: int) -> None:
        """Remove a watcher; another one of the same cluster may have begun already."""
        if self._beliefs.get(ident) is not beliefs:
            return
        del self._beliefs[ident]
        if ident in self.blind:
            self.blind.discard(ident)
            self._given[ident] = (now_us, looks(beliefs.memories.values()))
            if len(self._given) > WITNESSES_MAX:
                del self._given[next(iter(self._given))]

    def on_host(self, name: str, beside: ClusterId) -> Iterable[NodeMemory]:
        """Return what is remembered of one machine's nodes: of this cluster, and of all we can see.

        The silence of a cluster that we are blind for bears no witness against a machine.
        """
        seen = (b for i, b in self._beliefs.items() if i == beside or i not in self.blind)
        return chain.from_iterable(beliefs.on_host(name) for beliefs in seen)

    def places(self) -> frozenset[str]:
        """Return the machines under the nodes of all clusters that this engine watches."""
        return frozenset(chain.from_iterable(b.hosts for b in self._beliefs.values()))

    def hear_of_hosts(self, said: Mapping[str, Spoken]) -> None:
        """Store the backend's reports on hosts; of many hosts only the latest."""
        self.words.update(said)
        while len(self.words) > WITNESSES_MAX:
            del self.words[next(iter(self.words))]

    def given_silent(self, roads: frozenset[str], since_us: int, interval_s: float) -> int:
        """Return how many nodes were silent by those roads when their clusters were given away.

        Those count that left while the silence that began at `since_us` was under way, or shortly
        before: a node that is asked every `interval_s` says late that it is silent too.
        """
        late_us = WITNESS_US + int(interval_s * 1e6)
        witnesses = (seen for at_us, seen in self._given.values() if since_us <= at_us + late_us)
        return sum(silent_by(seen, roads) for seen in witnesses)

    def note(self, ident: ClusterId, *, blind: bool) -> None:
        """Store whether this engine is blind for a cluster."""
        (self.blind.add if blind else self.blind.discard)(ident)

    def heard(self, roads: frozenset[str], now_s: float) -> Heard:
        """Return what was heard by those roads, as of KEPT_S ago or later."""
        at_s, found = self._known.get(roads, (None, None))
        if at_s is None or found is None or not 0 <= now_s - at_s < KEPT_S:
            if len(self._known) >= ROADS_MAX:
                self._known.clear()
            everybody = chain.from_iterable(b.memories.values() for b in self._beliefs.values())
            found = hear(everybody, roads)
            self._known[roads] = (now_s, found)
        return found
