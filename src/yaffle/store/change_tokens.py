"""Change tokens: a few numbers per cluster that change with whatever its watcher reads.

`version` grows with every change of a node, so that two within a microsecond differ too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, func, literal_column, select, union_all

from yaffle.model.action import ActionKind
from yaffle.model.ids import ClusterId
from yaffle.store.actions import ACTIVE, UNFINISHED
from yaffle.store.tables import actions, bindings, clusters, nodes, pauses, policies, releases

if TYPE_CHECKING:
    from sqlalchemy import Connection

Stamp = tuple[object, ...]

_CLUSTERS = select(clusters.c.id, clusters.c.updated_us, clusters.c.status)
_MEMBERS = select(nodes.c.cluster_id, func.count(), func.sum(nodes.c.version)).group_by(
    nodes.c.cluster_id
)
_JOBS = (
    select(
        actions.c.cluster_id,
        func.count(),
        func.max(actions.c.updated_us),
        func.max(actions.c.created_us),
    )
    .where(actions.c.status.in_(UNFINISHED))
    .group_by(actions.c.cluster_id)
)
_POLICIES = (
    select(bindings.c.cluster_id, policies.c.id, policies.c.updated_us)
    .join(policies, bindings.c.policy_id == policies.c.id)
    .where(bindings.c.enabled, bindings.c.policy_type.startswith("senlin.policy.health"))
    .order_by(policies.c.id)
)


# One statement: an idle engine asks it every second. Rows of a union have no order, so they are numbered.
_HOLDS = union_all(
    select(
        literal_column("1"),
        func.count(),
        func.max(pauses.c.starts_us),
        func.max(pauses.c.lifted_us),
    ),
    select(
        literal_column("2"),
        func.count(),
        func.max(releases.c.created_us),
        func.max(releases.c.expires_us),
    ),
    select(
        literal_column("3"),
        func.count(),
        func.max(actions.c.created_us),
        func.max(actions.c.updated_us),
    ).where(actions.c.action == ActionKind.NODE_RECOVER, actions.c.status.in_(ACTIVE)),
)
_PARTS = (
    (_MEMBERS, nodes.c.cluster_id),
    (_JOBS, actions.c.cluster_id),
    (_POLICIES, bindings.c.cluster_id),
)
_CLUSTER = _CLUSTERS.where(clusters.c.id == bindparam("cluster"))
_PARTS_OF_ONE = tuple(query.where(column == bindparam("cluster")) for query, column in _PARTS)


def all_clusters(conn: Connection) -> Mapping[ClusterId, Stamp]:
    """Return the stamp of every cluster."""
    found = {row[0]: list(row[1:]) for row in conn.execute(_CLUSTERS)}
    for kind, (query, _) in enumerate(_PARTS):
        for row in conn.execute(query):
            if row[0] in found:
                found[row[0]].extend((kind, *row[1:]))
    return {ClusterId(ident): tuple(numbers) for ident, numbers in found.items()}


def of_holds(conn: Connection) -> Stamp:
    """Return numbers that change when what holds nodes of any cluster may have ended.

    Stops, maintenance and releases, and the recoveries that shared budgets have in flight.
    """
    return tuple(sorted(tuple(row) for row in conn.execute(_HOLDS)))


def of_cluster(conn: Connection, cluster_id: ClusterId) -> Stamp:
    """Return the stamp of one cluster; empty when it is gone."""
    asked = {"cluster": cluster_id}
    mine = conn.execute(_CLUSTER, asked).one_or_none()
    if mine is None:
        return ()
    numbers: list[object] = list(mine[1:])
    for kind, query in enumerate(_PARTS_OF_ONE):
        for row in conn.execute(query, asked):
            numbers.extend((kind, *row[1:]))
    return tuple(numbers)
