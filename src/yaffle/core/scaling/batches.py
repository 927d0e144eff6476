"""Splits a cluster's nodes into batches for update or deletion, so that enough stay in service.

Nodes that are not in service anyway come first: they cost nothing, and a new version that does not
work is then seen where it does no harm. Each batch of an update is chosen when it is due, by how
many serve then: a plan made beforehand would not know of a node that failed meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from yaffle.model.ids import NodeId

Plan: TypeAlias = "tuple[tuple[NodeId, ...], ...]"
"""Batches in their order; each node is in exactly one."""
UNLIMITED: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A node as the plan sees it."""

    node_id: NodeId
    index: int
    in_service: bool
    """ACTIVE, and neither unhealthy nor tainted."""


def next_update(
    members: Sequence[Member],
    *,
    serving: int,
    whole: int,
    min_in_service: int = 0,
    max_batch_size: int = UNLIMITED,
) -> tuple[NodeId, ...]:
    """Return the next batch of the members that are left to be updated; empty: none may be touched.

    `serving` and `whole` count the cluster: a node that failed meanwhile, updated or not, leaves
    room for one less. A cluster too small for its minimum even when all are well is updated one node
    at a time, as long as all others serve.
    """
    allowance = max(0, serving - min_in_service)
    if whole <= min_in_service and serving >= whole:
        allowance = 1
    size = _size(members, max_batch_size)
    order = _ordered(members)
    down = [m for m in order if not m.in_service]
    up = [m for m in order if m.in_service][:allowance]
    return tuple(m.node_id for m in (*down, *up)[:size])


def for_delete(members: Sequence[Member], *, max_batch_size: int = UNLIMITED) -> Plan:
    """Return batches of `max_batch_size`; nothing has to stay in service."""
    size = _size(members, max_batch_size)
    order = [member.node_id for member in _ordered(members)]
    return tuple(tuple(order[at : at + size]) for at in range(0, len(order), size))


def _size(members: Sequence[Member], max_batch_size: int) -> int:
    return max(1, len(members)) if max_batch_size < 0 else max(1, max_batch_size)


def _ordered(members: Sequence[Member]) -> list[Member]:
    return sorted(members, key=lambda m: (m.in_service, m.index, m.node_id))
