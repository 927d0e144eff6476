"""NODE_JOIN and NODE_LEAVE: one transaction each, under the node's lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle.engine.cluster_actions.cluster_action import SUCCESS, Ended
from yaffle.engine.incidents import lifecycle
from yaffle.model.action import ActionKind
from yaffle.model.incident import IncidentState
from yaffle.store import actions, catalog, incidents

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.engine.runtime.context import EngineContext
    from yaffle.store.rows import ActionRow, NodeRow


def move(ctx: EngineContext, conn: Connection, action: ActionRow) -> Ended:
    """Carry out a NODE_JOIN or NODE_LEAVE."""
    now_us = ctx.clock.now_us()
    node = None if action.node_id is None else catalog.node(conn, action.node_id)
    if action.cancel_reason is not None:
        return Ended(status=actions.CANCELLED, reason=action.cancel_reason)
    if node is None:
        return Ended(status=actions.CANCELLED, reason="the node is gone")
    if action.action == ActionKind.NODE_JOIN:
        ended = _join(conn, action, node, now_us)
    else:
        ended = _leave(ctx, conn, action, node, now_us)
    lifecycle.node_event(
        conn,
        node,
        at_us=now_us,
        action=action.action,
        status="end" if ended.reason == SUCCESS else "error",
        reason=ended.reason,
    )
    return ended


def _join(conn: Connection, action: ActionRow, node: NodeRow, now_us: int) -> Ended:
    cluster = None if action.cluster_id is None else catalog.cluster(conn, action.cluster_id)
    if cluster is None:
        return Ended(status=actions.FAILED, reason="the cluster is gone")
    if node.cluster_id is not None:
        return Ended(status=actions.FAILED, reason="the node belongs to a cluster already")
    catalog.set_node(
        conn,
        node.id,
        now_us,
        cluster_id=cluster.id,
        index=cluster.next_index,
        # Watched from now on: what its last cluster thought of it says nothing.
        health="initializing",
        health_reason="",
        health_us=now_us,
        grace_us=now_us,
    )
    catalog.set_cluster(conn, cluster.id, now_us, next_index=cluster.next_index + 1)
    return Ended()


def _leave(
    ctx: EngineContext, conn: Connection, action: ActionRow, node: NodeRow, now_us: int
) -> Ended:
    if node.cluster_id != action.cluster_id:
        return Ended(status=actions.FAILED, reason="the node is no member any more")
    incident = incidents.open_of(conn, node.id)
    if incident is not None:
        lifecycle.transition(
            ctx,
            conn,
            node,
            incident,
            IncidentState.SUPERSEDED,
            reason="the node left its cluster",
            now_us=now_us,
        )
    # Nobody watches it from now on: what was believed of it says less with every minute.
    catalog.set_node(
        conn,
        node.id,
        now_us,
        cluster_id=None,
        index=-1,
        grace_us=None,
        health="unknown",
        health_reason="",
        health_us=now_us,
    )
    return Ended()
