"""Looks up active pauses again at each step: admission knew only those of its own time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle.core.planning.pauses import covering
from yaffle.model.ids import ClusterId, NodeId
from yaffle.model.incident import PauseKind
from yaffle.store import pauses

if TYPE_CHECKING:
    from sqlalchemy import Connection


def halted(
    conn: Connection, node_id: NodeId | None, cluster_id: ClusterId | None, now_us: int
) -> str:
    """Return the stop or the maintenance that covers a node now, or nothing (design/failure#guards)."""
    known = pauses.in_force(conn, now_us)
    node, cluster = node_id or NodeId(""), cluster_id or ClusterId("")
    for kind in (PauseKind.STOP, PauseKind.MAINTENANCE):
        for pause in covering(known, kind, node, cluster, now_us):
            return f"{kind.value} by {pause.owner}: {pause.reason}"
    return ""
