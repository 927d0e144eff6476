"""Change tokens: a few numbers per cluster that change with whatever its watcher reads.

`version` grows with every change of a node, so that two within a microsecond differ too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlalchemy import and_, bindparam, func, select, true

from yaffle.model.action import ActionKind
from yaffle.model.ids import ClusterId
from yaffle.store.actions import ACTIVE, UNFINISHED
from yaffle.store.tables import actions, bindings, clusters, nodes, pauses, policies, releases

if TYPE_CHECKING:
    from sqlalchemy import Column, ColumnElement, Connection, Subquery, Table

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


def _newest(table: Table, *times: Column[int], where: ColumnElement[bool]) -> Subquery:
    found = [func.max(column).label(column.name) for column in times]
    return select(func.count().label("rows"), *found).select_from(table).where(where).subquery()


_PAUSES = _newest(pauses, pauses.c.starts_us, pauses.c.lifted_us, where=true())
_RELEASES = _newest(releases, releases.c.created_us, where=true())
_RECOVERIES = _newest(
    actions,
    actions.c.created_us,
    actions.c.updated_us,
    where=and_(actions.c.action == ActionKind.NODE_RECOVER, actions.c.status.in_(ACTIVE)),
)
# One statement: an idle engine asks this every second.
_HOLDS = select(_PAUSES, _RELEASES, _RECOVERIES).select_from(
    _PAUSES.join(_RELEASES, true()).join(_RECOVERIES, true())
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
    return tuple(conn.execute(_HOLDS).one())


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
