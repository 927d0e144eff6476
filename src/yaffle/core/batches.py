"""In which batches a cluster's nodes are updated or deleted, so that enough of them stay in service.

Nodes that are not in service anyway come first: they cost nothing, and a new version that does not
work is then seen where it does no harm. A node once updated is not counted as back in service,
because nobody knows that yet when the plan is made.
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


def for_update(
    members: Sequence[Member], *, min_in_service: int = 0, max_batch_size: int = UNLIMITED
) -> Plan:
    """Return batches that leave `min_in_service` nodes in service while each is worked on.

    A cluster too small for that is updated one node in service at a time rather than never.
    """
    serving = sum(member.in_service for member in members)
    allowance = max(1, serving - min_in_service)
    return _filled(members, allowance=allowance, size=_size(members, max_batch_size))


def for_delete(members: Sequence[Member], *, max_batch_size: int = UNLIMITED) -> Plan:
    """Return batches of `max_batch_size`; nothing has to stay in service."""
    return _filled(members, allowance=len(members), size=_size(members, max_batch_size))


def _size(members: Sequence[Member], max_batch_size: int) -> int:
    return max(1, len(members)) if max_batch_size < 0 else max(1, max_batch_size)


def _filled(members: Sequence[Member], *, allowance: int, size: int) -> Plan:
    """Fill batch after batch: at most `size` nodes and at most `allowance` in service in each."""
    batches: list[tuple[NodeId, ...]] = []
    batch: list[Member] = []
    for member in sorted(members, key=lambda m: (m.in_service, m.index, m.node_id)):
        serving = sum(m.in_service for m in batch)
        if len(batch) == size or (member.in_service and serving == allowance):
            batches.append(tuple(m.node_id for m in batch))
            batch = []
        batch.append(member)
    if batch:
        batches.append(tuple(m.node_id for m in batch))
    return tuple(batches)
