"""The deletion, scaling and batch policies of a cluster, parsed; they have their say by priority."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import structlog

from yaffle.errors import YaffleError
from yaffle.model.cluster_policies import BatchPolicy, DeletionPolicy, ScalingPolicy
from yaffle.policy import parse_document
from yaffle.store import catalog

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

    from yaffle.model.ids import ClusterId
    from yaffle.store.records import BindingRow, PolicyRow

log = structlog.get_logger()

P = TypeVar("P", DeletionPolicy, ScalingPolicy, BatchPolicy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A policy document with the binding that attached it and the row that holds it."""

    binding: BindingRow
    row: PolicyRow


def enabled(conn: Connection, cluster_id: ClusterId) -> Iterator[Bound]:
    """Yield what is attached and switched on, by priority."""
    for binding in catalog.bindings_of(conn, cluster_id):
        if binding.enabled:
            yield Bound(binding=binding, row=catalog.policy(conn, binding.policy_id))


def of_kind(conn: Connection, cluster_id: ClusterId, kind: type[P]) -> list[tuple[Bound, P]]:
    """Return the cluster's policies of one kind."""
    found: list[tuple[Bound, P]] = []
    for bound in enabled(conn, cluster_id):
        try:
            policy = parse_document(bound.row.spec).policy
        except YaffleError:
            # It was accepted once; one that this version cannot read decides nothing.
            log.exception("stored policy cannot be read", policy=bound.row.name)
            continue
        if isinstance(policy, kind):
            found.append((bound, policy))
    return found


def deletion(conn: Connection, cluster_id: ClusterId) -> DeletionPolicy | None:
    """Return the deletion policy in force, a singleton."""
    return next((p for _, p in of_kind(conn, cluster_id, DeletionPolicy)), None)


def batch(conn: Connection, cluster_id: ClusterId) -> BatchPolicy | None:
    """Return the batch policy in force, a singleton."""
    return next((p for _, p in of_kind(conn, cluster_id, BatchPolicy)), None)
