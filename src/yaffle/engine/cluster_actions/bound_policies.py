"""The deletion, scaling and batch policies bound to a cluster, parsed, in order of priority."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

import structlog

from yaffle.errors import DependencyError, YaffleError
from yaffle.model.cluster_policies import BatchPolicy, DeletionPolicy, ScalingPolicy
from yaffle.policy import parse_document
from yaffle.policy.settings import BATCH_TYPE, DELETION_TYPE, SCALING_TYPE
from yaffle.store import catalog

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

    from yaffle.model.ids import ClusterId
    from yaffle.store.rows import BindingRow, PolicyRow

log = structlog.get_logger()

P = TypeVar("P", DeletionPolicy, ScalingPolicy, BatchPolicy)


UNREAD: Final = "that policy cannot be read here"
_TYPES: Final[Mapping[type, str]] = MappingProxyType(
    {DeletionPolicy: DELETION_TYPE, ScalingPolicy: SCALING_TYPE, BatchPolicy: BATCH_TYPE}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A policy document with the binding that attached it and the row that holds it."""

    binding: BindingRow
    row: PolicyRow


def enabled(conn: Connection, cluster_id: ClusterId) -> Iterator[Bound]:
    """Yield the enabled policies of a cluster, by priority."""
    for binding in catalog.bindings_of(conn, cluster_id):
        if binding.enabled:
            yield Bound(binding=binding, row=catalog.policy(conn, binding.policy_id))


def of_kind(conn: Connection, cluster_id: ClusterId, kind: type[P]) -> list[tuple[Bound, P]]:
    """Return the cluster's policies of one kind; raise DependencyError where one cannot be read."""
    found: list[tuple[Bound, P]] = []
    for bound in enabled(conn, cluster_id):
        try:
            policy = parse_document(bound.row.spec).policy
        except YaffleError as error:
            if bound.row.type.startswith(_TYPES[kind]):
                # It was accepted once: that this version cannot read it is not that there is none.
                raise DependencyError(f"{bound.row.name}: {UNREAD}: {error}") from error
            log.exception("stored policy cannot be read", policy=bound.row.name)
            continue
        if isinstance(policy, kind):
            found.append((bound, policy))
    return found


def deletion(conn: Connection, cluster_id: ClusterId) -> DeletionPolicy | None:
    """Return the enabled deletion policy, a singleton."""
    return next((p for _, p in of_kind(conn, cluster_id, DeletionPolicy)), None)


def batch(conn: Connection, cluster_id: ClusterId) -> BatchPolicy | None:
    """Return the enabled batch policy, a singleton."""
    return next((p for _, p in of_kind(conn, cluster_id, BatchPolicy)), None)
