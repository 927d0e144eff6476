"""Detects a partition of the observer: is it we who lost the network, and not the nodes?

Blind = at least two targets were asked, none gave any answer, and the reference targets fail too.
A failing reference target is one of the two. Where a cluster has but one node, all that the engine
has asked lately by the same road counts, whichever cluster it belongs to.
The road is the kind of detection. One may be cut off while another answers (the backend still says
"running", no URL is reached), so a failure that nothing but silent roads bear out is judged by them;
one that an answer bears out ("it is switched off") is not ours.
A reset, a refused connection or "pid gone" is an answer: it proves that the question arrived
(design/failure#guards; promise 2 of the anchors).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from yaffle.core.health.verdict import Belief

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from yaffle.core.health.verdict import NodeMemory
    from yaffle.model.health import Observation
    from yaffle.model.ids import ModeKey

MIN_TARGETS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Blindness:
    """The numbers behind "the fault may be ours": asked, answered, references."""

    asked: int
    answered: int
    references_asked: int
    references_answered: int
    road: str = ""
    """The kind of detection that was counted alone; empty for all of them together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sights:
    """Reachability as a whole, and by each kind of detection (road) that a verdict rests on alone."""

    whole: Blindness
    roads: Mapping[str, Blindness] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def blind(self) -> bool:
        """Whether we are blind as a whole or by any road."""
        return is_blind(self.whole) or any(map(is_blind, self.roads.values()))

    def of(self, memory: NodeMemory) -> Blindness:
        """Return the numbers by which this node's failure may be ours."""
        known = [self.roads.get(road) for road in sorted(rests_on(memory))]
        blind = [seen for seen in known if seen is not None and is_blind(seen)]
        if blind and len(blind) == len(known) and not is_blind(self.whole):
            return blind[0]
        return self.whole


def rests_on(memory: NodeMemory) -> frozenset[str]:
    """Return the roads whose silence alone makes a node fail; none where an answer does too."""
    against = [t.last for t in memory.tracks.values() if t.belief is Belief.DOWN and t.last]
    if any(seen.answered for seen in against):
        return frozenset()
    return frozenset(_road(seen.mode) for seen in against)


def by_road(memories: Iterable[NodeMemory], roads: Iterable[str]) -> Mapping[str, Blindness]:
    """Count the nodes asked and answering by each of some roads; references are not asked here."""
    asked = dict.fromkeys(roads, 0)
    answered = dict.fromkeys(asked, 0)
    for memory in memories:
        for seen in _last(memory):
            road = _road(seen.mode)
            if road in asked:
                asked[road] += 1
                answered[road] += seen.answered
    return {
        road: Blindness(
            asked=asked[road],
            answered=answered[road],
            references_asked=0,
            references_answered=0,
            road=road,
        )
        for road in asked
    }


def bearings(memories: Iterable[NodeMemory], references: tuple[bool, ...]) -> Blindness:
    """Count the nodes and references asked and answering.

    `references`: one entry per configured reference target, whether it answered just now.
    """
    asked = answered = 0
    for memory in memories:
        last = _last(memory)
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
    """Whether nothing answers at all, so that we count as blind.

    Without reference targets silence of all nodes is enough to hold: we cannot tell a dead rack
    from a dead uplink.
    """
    targets = seen.asked + seen.references_asked if seen.asked else 0
    return targets >= MIN_TARGETS and not seen.answered and not seen.references_answered


def assess(memories: Iterable[NodeMemory], references: tuple[bool, ...]) -> Blindness | None:
    """Return the numbers when nothing answers, or None when somebody does."""
    seen = bearings(memories, references)
    return seen if is_blind(seen) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """The silence of one cluster's nodes: since when, and by which kinds of detection (roads)."""

    since_us: int
    roads: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """Recent answers to an engine by some roads, over all its clusters; stale ones are dropped."""

    asked: int
    silent: int
    """Nodes whose last question got no answer."""
    answers_us: tuple[int, ...]
    """When each of the others answered, in order."""

    def since(self, began_us: int) -> Blindness:
        """Return the numbers where only an answer that came after `began_us` disproves blindness."""
        answered = len(self.answers_us) - bisect_left(self.answers_us, began_us)
        return Blindness(
            asked=self.asked, answered=answered, references_asked=0, references_answered=0
        )


def silence(memories: Iterable[NodeMemory], road: str = "") -> Silence | None:
    """Return the silence of nodes of which none answers (by `road`); None where none was asked."""
    began: list[int] = []
    roads: set[str] = set()
    for memory in memories:
        last = [seen for seen in _last(memory) if road in {"", _road(seen.mode)}]
        roads |= {_road(seen.mode) for seen in last}
        fell_us = memory.first_fail_us
        began += [seen.at_us if fell_us is None else fell_us for seen in last]
    return Silence(since_us=min(began), roads=frozenset(roads)) if began else None


def hear(memories: Iterable[NodeMemory], roads: frozenset[str]) -> Heard:
    """Return the answers by those roads; one by another road does not prove that they work."""
    asked = 0
    answers_us: list[int] = []
    for memory in memories:
        last = [seen for seen in _last(memory) if _road(seen.mode) in roads]
        asked += bool(last)
        if answers := [seen.at_us for seen in last if seen.answered]:
            answers_us.append(max(answers))
    return Heard(asked=asked, silent=asked - len(answers_us), answers_us=tuple(sorted(answers_us)))


Look = tuple[frozenset[str], frozenset[str]]
"""By which roads a node was silent when last asked, and by which it answered."""


def looks(memories: Iterable[NodeMemory]) -> Counter[Look]:
    """Return the counts of nodes by observation, which are kept of a cluster that was given away."""
    found: Counter[Look] = Counter()
    for memory in memories:
        if last := _last(memory):
            answered = frozenset(_road(seen.mode) for seen in last if seen.answered)
            found[frozenset(_road(seen.mode) for seen in last) - answered, answered] += 1
    return found


def silent_by(seen: Mapping[Look, int], roads: frozenset[str]) -> int:
    """Return how many of the nodes were asked by some of these roads and answered by none."""
    return sum(n for (silent, heard), n in seen.items() if silent & roads and not heard & roads)


def _last(memory: NodeMemory) -> list[Observation]:
    return [t.last for t in memory.tracks.values() if t.last is not None]


def _road(mode: ModeKey) -> str:
    """Return the kind of detection; before it stands the mode's place in its policy."""
    return mode.partition(":")[2]
