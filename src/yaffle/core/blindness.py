"""Is it me? Before many nodes are judged, ask whether the watcher itself has lost its network.

Blind = at least two targets were asked, none gave any answer, and the reference targets fail too.
A reset, a refused connection or "pid gone" is an answer: it proves that the question arrived
(DESIGN §1.3; promise 2 of the anchors).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from yaffle.core.verdict import NodeMemory

MIN_TARGETS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Blindness:
    """The numbers behind "it may be me"."""

    asked: int
    answered: int
    references_asked: int
    references_answered: int


def bearings(memories: Iterable[NodeMemory], references: tuple[bool, ...]) -> Blindness:
    """Return who was asked and who answered, whatever it comes to.

    `references`: one entry per configured reference target, whether it answered just now.
    """
    asked = answered = 0
    for memory in memories:
        last = [t.last for t in memory.tracks.values() if t.last is not None]
        if not last:
            continue
        asked += 1
        answered += any(seen.answered for seen in last)
    return Blindness(
        asked=asked,
        answered=answered,
        references_asked=len(references),
        references_answered=sum(references),
    )


def is_blind(seen: Blindness) -> bool:
    """Whether nothing answers at all.

    Without reference targets silence of all nodes is enough to hold: we cannot tell a dead rack
    from a dead uplink.
    """
    return seen.asked >= MIN_TARGETS and not seen.answered and not seen.references_answered


def assess(memories: Iterable[NodeMemory], references: tuple[bool, ...]) -> Blindness | None:
    """Return the numbers when nothing answers, or None when somebody does."""
    seen = bearings(memories, references)
    return seen if is_blind(seen) else None
