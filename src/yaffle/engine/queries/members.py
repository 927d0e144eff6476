"""Reads clusters and nodes: status, health, backend status, hold, current action."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlalchemy import func, or_, select

from yaffle.core.planning.retry import allowed_once_spent
from yaffle.engine.detection.cluster_snapshot import policy_of
from yaffle.engine.queries import presentation
from yaffle.engine.queries.presentation import Shown
from yaffle.model.health import Health, NodeStatus
from yaffle.model.incident import HoldReason
from yaffle.store import actions, catalog, pauses
from yaffle.store import incidents as incident_rows
from yaffle.store.rows import NodeRow, load
from yaffle.store.tables import actions as action_rows
from yaffle.store.tables import bindings, incidents, nodes, policies, profiles

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection

    from yaffle.engine.runtime.context import EngineContext
    from yaffle.model.authz import Principal
    from yaffle.model.ids import IncidentId, NodeId
    from yaffle.store.rows import ClusterRow


class Members:
    """Reads clusters and nodes."""

    def __init__(self, ctx: EngineContext) -> None:
        self._ctx = ctx

    async def clusters(self, who: Principal) -> Sequence[Shown]:
        """Return every cluster without its nodes, the oldest first."""
        return await self._ctx.store.read(lambda conn: _clusters(conn, who.scope))

    async def cluster(self, who: Principal, ident: str) -> Shown:
        """Return one cluster with its nodes; raise NotFound or MultipleChoices."""

        def work(conn: Connection) -> Shown:
            row = catalog.find_cluster(conn, ident, who.scope)
            members = catalog.nodes_of(conn, row.id)
            listed = _nodes(self._ctx, conn, members, {row.id: row})
            shown = _cluster(conn, row, _counts(conn, nodes.c.cluster_id == row.id).get(row.id))
            return {**shown, "nodes": listed}

        return await self._ctx.store.read(work)

    async def nodes(
        self, who: Principal, cluster: str | None = None, *, attention: bool = False
    ) -> Sequence[Shown]:
        """Return nodes, all or those of a cluster; raise NotFound or MultipleChoices.

        `attention`: only those of which there is something to say.
        """
        scope = who.scope

        def work(conn: Connection) -> Sequence[Shown]:
            rows: dict[str, ClusterRow]
            if cluster is not None:
                row = catalog.find_cluster(conn, cluster, scope)
                rows, where = {row.id: row}, [nodes.c.cluster_id == row.id]
            else:
                rows = {row.id: row for row in catalog.all_clusters(conn, scope)}
                where = [] if scope is None else [nodes.c.project == scope]
            query = select(nodes).where(*where, *([_attention()] if attention else []))
            query = query.order_by(nodes.c.created_us, nodes.c.index, nodes.c.id)
            found = [load(NodeRow, r) for r in conn.execute(query)]
            return _nodes(self._ctx, conn, found, rows)

        return await self._ctx.store.read(work)

    async def count(self, who: Principal) -> int:
        """Return how many nodes there are."""
        scope = who.scope
        query = select(func.count()).select_from(nodes)
        query = query.where(*([] if scope is None else [nodes.c.project == scope]))
        return await self._ctx.store.read(lambda conn: int(conn.execute(query).scalar_one()))

    async def node(self, who: Principal, ident: str) -> Shown:
        """Return one node; raise NotFound or MultipleChoices."""
        return await self._ctx.store.read(
            lambda conn: node(self._ctx, conn, catalog.find_node(conn, ident, who.scope))
        )


def node(ctx: EngineContext, conn: Connection, row: NodeRow) -> Shown:
    """Return one node."""
    cluster = catalog.cluster(conn, row.cluster_id) if row.cluster_id else None
    return _nodes(ctx, conn, [row], {cluster.id: cluster} if cluster else {})[0]


def _attention() -> ColumnElement[bool]:
    """Return the condition that a node is not simply active and healthy and left at that."""
    return or_(
        nodes.c.status != NodeStatus.ACTIVE.value,
        nodes.c.health != Health.HEALTHY.value,
        nodes.c.gray,
        nodes.c.mark_reason.is_not(None),
        nodes.c.exhausted_us.is_not(None),
        nodes.c.id.in_(select(incidents.c.open_key).where(incidents.c.open_key.is_not(None))),
        nodes.c.id.in_(
            select(action_rows.c.lock_key).where(
                action_rows.c.lock_key.is_not(None), action_rows.c.status.in_(actions.UNFINISHED)
            )
        ),
    )


@dataclass(slots=True, kw_only=True)
class _Counts:
    """How the nodes of one cluster are."""

    health: Counter[str] = field(default_factory=Counter)
    exhausted: int = 0


def _counts(conn: Connection, *where: ColumnElement[bool]) -> Mapping[str, _Counts]:
    """Return by cluster how its nodes are, counted where they lie."""
    found: dict[str, _Counts] = {}
    columns = nodes.c.cluster_id, nodes.c.health, nodes.c.exhausted_us.is_not(None)
    query = select(*columns, func.count()).where(nodes.c.cluster_id.is_not(None), *where)
    for cluster_id, health, exhausted, count in conn.execute(query.group_by(*columns)):
        mine = found.setdefault(cluster_id, _Counts())
        mine.health[health] += count
        mine.exhausted += count if exhausted else 0
    return found


def _clusters(conn: Connection, project: str | None) -> Sequence[Shown]:
    found = catalog.all_clusters(conn, project)
    counts = _counts(conn, *([] if project is None else [nodes.c.project == project]))
    return [_cluster(conn, row, counts.get(row.id)) for row in found]


def _cluster(conn: Connection, row: ClusterRow, counts: _Counts | None) -> Shown:
    known = counts or _Counts()
    bound = conn.execute(
        select(policies.c.id, policies.c.name, policies.c.type, bindings.c.enabled)
        .join(bindings, bindings.c.policy_id == policies.c.id)
        .where(bindings.c.cluster_id == row.id)
        .order_by(bindings.c.priority, policies.c.name)
    ).mappings()
    profile = catalog.profile(conn, row.profile_id)
    return {
        "id": row.id,
        "name": row.name,
        "profile_id": row.profile_id,
        "profile": profile.name,
        "policies": [dict(b) for b in bound],
        "desired_capacity": row.desired_capacity,
        "status": row.status,
        "status_reason": row.status_reason,
        "health": {h.value: known.health[h.value] for h in Health},
        "holds": _hold_counts(conn, row.id, known.exhausted),
        **presentation.times(
            released_until=pauses.released_until(conn, row.id), created=row.created_us
        ),
    }


def _hold_counts(conn: Connection, cluster_id: str, exhausted: int) -> dict[str, int]:
    rows = conn.execute(
        select(incidents.c.hold_reason, func.count())
        .where(
            incidents.c.cluster_id == cluster_id,
            incidents.c.open_key.is_not(None),
            incidents.c.hold_reason.is_not(None),
            incidents.c.hold_reason != HoldReason.NEEDS_HUMAN.value,
        )
        .group_by(incidents.c.hold_reason)
        .order_by(incidents.c.hold_reason)
    )
    # Exhausted nodes have no open incident any more; the first thing a person has to see.
    spent = {HoldReason.NEEDS_HUMAN.value: exhausted} if exhausted else {}
    return {**spent, **{row[0]: row[1] for row in rows}}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Around:
    """What is looked up once for a whole list of nodes."""

    clusters: Mapping[str, ClusterRow]
    profiles: Mapping[str, str]
    holds: Mapping[str, Shown | None]
    busy: Mapping[str, Shown]
    allowed: Mapping[str, int]
    """Tries per node, by cluster."""
    given_up: Mapping[NodeId, IncidentId]
    """By node that is exhausted, the incident that a person has to acknowledge."""


def _nodes(
    ctx: EngineContext,
    conn: Connection,
    rows: Sequence[NodeRow],
    clusters: Mapping[str, ClusterRow],
) -> list[Shown]:
    around = _Around(
        clusters=clusters,
        profiles={r[0]: r[1] for r in conn.execute(select(profiles.c.id, profiles.c.name))},
        holds=_holds(conn, rows),
        busy=_busy(conn, rows),
        allowed={
            c.id: policy_of(ctx, conn, c.id)[0].recovery.retry.attempts for c in clusters.values()
        },
        given_up=incident_rows.exhausted_of(
            conn, [row.id for row in rows if row.exhausted_us is not None]
        ),
    )
    return [_node(row, around) for row in rows]


def _one(rows: Sequence[NodeRow]) -> str | None:
    """Return the id of the only node: then indexes find what a scan would filter."""
    return rows[0].id if len(rows) == 1 else None


def _holds(conn: Connection, rows: Sequence[NodeRow]) -> Mapping[str, Shown | None]:
    query = select(incidents.c.open_key, incidents.c.hold_reason, incidents.c.hold_numbers).where(
        incidents.c.open_key.is_not(None)
    )
    only = _one(rows)
    if only is not None:
        query = query.where(incidents.c.open_key == only)
    return {key: presentation.hold(reason, numbers) for key, reason, numbers in conn.execute(query)}


def _busy(conn: Connection, rows: Sequence[NodeRow]) -> Mapping[str, Shown]:
    only = _one(rows)
    wanted: dict[str, object] = {} if only is None else {"node_id": only}
    return {
        a.lock_key: {"id": a.id, "action": a.action, "status": a.status}
        for a in actions.unfinished(conn, **wanted)
        if a.lock_key is not None
    }


def _node(row: NodeRow, around: _Around) -> Shown:
    cluster = around.clusters.get(row.cluster_id or "")
    return {
        "id": row.id,
        "name": row.name,
        "cluster_id": row.cluster_id,
        "cluster": cluster.name if cluster else "",
        "index": row.index,
        "profile_id": row.profile_id,
        "profile": around.profiles.get(row.profile_id, ""),
        "physical_id": row.physical_id,
        "status": row.status,
        "status_reason": row.status_reason,
        "health": row.health,
        "health_reason": row.health_reason,
        "gray": row.gray,
        "backend_status": row.backend_status,
        "attributes": dict(row.attributes),
        "mark": _mark(row),
        "hold": _hold(row, around),
        "action": around.busy.get(row.id),
        "retry": {
            "attempts": row.attempts,
            "allowed": around.allowed.get(row.cluster_id or ""),
            "exhausted": row.exhausted_us is not None,
            "incident_id": around.given_up.get(row.id),
            **presentation.times(next=row.next_attempt_us),
        },
        **presentation.times(
            since=row.health_us or row.created_us, seen=row.seen_us, created=row.created_us
        ),
    }


def _hold(row: NodeRow, around: _Around) -> Shown | None:
    if row.exhausted_us is None:
        return around.holds.get(row.id)
    allowed = around.allowed.get(row.cluster_id or "")
    numbers = {
        "attempts": row.attempts,
        "allowed": allowed and allowed_once_spent(row.attempts, allowed),
    }
    return presentation.hold(HoldReason.NEEDS_HUMAN.value, numbers)


def _mark(row: NodeRow) -> Shown | None:
    if row.mark_reason is None:
        return None
    return {"reason": row.mark_reason, "by": row.mark_by, **presentation.times(at=row.mark_us)}
