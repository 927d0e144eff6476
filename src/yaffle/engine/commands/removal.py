"""Taking a node away: its deletion queues behind whatever holds the node, which is told to stop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle.engine import news
from yaffle.model.health import NodeStatus
from yaffle.model.incident import IncidentState
from yaffle.store import actions, catalog, incidents

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.engine.commands.desk import Desk
    from yaffle.store.records import NodeRow


def remove(desk: Desk, conn: Connection, node: NodeRow, by: str, now_us: int) -> bool:
    """Queue the deletion of a node; False when that was done already."""
    present = actions.unfinished(conn, node_id=node.id)
    if any(a.action == "NODE_DELETE" for a in present):
        return False
    incident = incidents.open_of(conn, node.id)
    holder = next((a for a in present if a.lock_key is not None), None)
    for other in present:
        actions.cancel(conn, other.id, f"{by} deletes the node", now_us)
        if other.status == actions.WAITING:
            actions.end(
                conn,
                other.id,
                now_us,
                status=actions.CANCELLED,
                reason="the node is being deleted",
                outputs={},
            )
    waits = holder is not None and holder.status != actions.WAITING
    desk.job(conn, "NODE_DELETE", node.id, node.cluster_id, by, now_us, locked=not waits)
    catalog.set_node(
        conn,
        node.id,
        now_us,
        status=NodeStatus.DELETING.value,
        status_reason=f"asked for by {by}",
    )
    if incident is not None and not waits:
        news.change(
            desk.kit,
            conn,
            node,
            incident,
            IncidentState.SUPERSEDED,
            reason=f"{by} deletes the node",
            now_us=now_us,
        )
    return True
