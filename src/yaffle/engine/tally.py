"""What this engine heard of all that it watches, so that clusters of one node tell it that it is blind.

One node's silence proves nothing. An engine that is cut off and holds many clusters of one node each
would find every one of them dead and itself well; so where a cluster is too small to tell, all of
them are asked (DESIGN §1: is it me?).
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol

from yaffle.core.blindness import Heard, hear

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yaffle.core.verdict import NodeMemory
    from yaffle.model.ids import ClusterId, NodeId

KEPT_S: Final = 1.0
"""A thousand clusters that fall silent at once are counted once, not a thousand times."""
ROADS_MAX: Final = 16


class Beliefs(Protocol):
    """What one watch remembers of its nodes."""

    @property
    def memories(self) -> Mapping[NodeId, NodeMemory]:
        """All of it, as of now."""
        ...


class Tally:
    """The beliefs of every watch at work here, and which clusters we cannot see."""

    def __init__(self) -> None:
        self.blind: set[ClusterId] = set()
        """Those whose nodes are held because it may be us."""
        self._beliefs: dict[ClusterId, Beliefs] = {}
        self._known: dict[frozenset[str], tuple[float, Heard]] = {}

    def join(self, ident: ClusterId, beliefs: Beliefs) -> None:
        """Count a watch from now on."""
        self._beliefs[ident] = beliefs

    def leave(self, ident: ClusterId, beliefs: Beliefs) -> None:
        """Count a watch no more; another one of the same cluster may have begun already."""
        if self._beliefs.get(ident) is beliefs:
            del self._beliefs[ident]
            self.blind.discard(ident)

    def note(self, ident: ClusterId, *, blind: bool) -> None:
        """Say whether a cluster's nodes are held because it may be us."""
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
