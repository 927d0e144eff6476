"""Selects the nodes that scaling in removes: unhealthy first, then never made, then by criteria.

The order of the first two is Senlin's, with our own belief added: a node judged unhealthy goes
before all others. A deletion policy only orders what is left; without one the oldest go first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from yaffle.model.cluster_policies import Criteria
from yaffle.model.health import Health, NodeStatus

if TYPE_CHECKING:
    from yaffle.model.ids import NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A node that may be given up; times in µs, UTC."""

    node_id: NodeId
    index: int
    status: NodeStatus
    health: Health
    tainted: bool
    created_us: int
    """When the node was asked for."""
    made_us: int | None
    """When it first existed; None: never."""
    profile_created_us: int
    name: str = ""


def choose(
    candidates: Sequence[Candidate],
    count: int,
    *,
    criteria: Criteria = Criteria.OLDEST_FIRST,
    pick: Callable[[int], int],
) -> tuple[NodeId, ...]:
    """Return up to `count` nodes in the order in which they go.

    `pick(n)` returns a number from 0 to n - 1 by chance; it is asked for RANDOM only.
    """
    by_index = sorted(candidates, key=lambda c: (c.index, c.node_id))
    sick = sorted((c for c in by_index if _is_sick(c)), key=_grade)
    unmade = [c for c in by_index if not _is_sick(c) and c.made_us is None]
    sound = [c for c in by_index if not _is_sick(c) and c.made_us is not None]
    order = (*sick, *unmade, *_ordered(sound, criteria, pick))
    return tuple(c.node_id for c in order[: max(0, count)])


def _is_sick(node: Candidate) -> bool:
    return _grade(node) < _SOUND


_SOUND = 4


def _grade(node: Candidate) -> int:
    """Return how little is lost with the node, the least first."""
    if node.health is Health.UNHEALTHY:
        return 0
    if node.status is NodeStatus.ERROR:
        return 1
    if node.status is NodeStatus.WARNING:
        return 2
    return 3 if node.tainted else _SOUND


def _ordered(
    sound: list[Candidate], criteria: Criteria, pick: Callable[[int], int]
) -> list[Candidate]:
    match criteria:
        case Criteria.OLDEST_FIRST:
            return sorted(sound, key=_age)
        case Criteria.YOUNGEST_FIRST:
            return sorted(sound, key=_age, reverse=True)
        case Criteria.OLDEST_PROFILE_FIRST:
            return sorted(sound, key=lambda c: c.profile_created_us)
        case Criteria.RANDOM:
            rest = list(sound)
            return [rest.pop(pick(len(rest))) for _ in range(len(sound))]
        case _:
            assert_never(criteria)


def _age(node: Candidate) -> tuple[int, int]:
    # Nodes of one request were asked for at one moment: the index then says which was first.
    return node.created_us, node.index
