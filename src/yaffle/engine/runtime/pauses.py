"""Looks up active pauses, again at each step: admission knew only those of its own time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from yaffle.core.planning.pauses import covering, is_of_host
from yaffle.model.ids import ClusterId, NodeId
from yaffle.model.incident import PauseKind, PauseScope
from yaffle.store import catalog, pauses

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import Connection

    from yaffle.model.incident import Pause
    from yaffle.store.rows import NodeRow


def over_nodes(known: Sequence[Pause], nodes: Iterable[NodeRow]) -> Iterator[Pause]:
    """Yield the pauses, that of a host as those of the nodes that are on it."""
    of_hosts = [pause for pause in known if pause.scope is PauseScope.HOST]
    yield from (pause for pause in known if pause.scope is not PauseScope.HOST)
    for node in nodes if of_hosts else ():
        host = str(node.attributes.get("host") or "")
        for pause in of_hosts:
            if host and is_of_host(pause, host):
                said = f"{pause.reason} (host {host})"
                yield replace(pause, scope=PauseScope.NODE, target_id=node.id, reason=said)


def halted(
    conn: Connection, node_id: NodeId | None, cluster_id: ClusterId | None, now_us: int
) -> str:
    """Return the stop or the maintenance that covers a node now, or nothing (design/failure#guards)."""
    known: Sequence[Pause] = pauses.in_force(conn, now_us)
    if node_id and any(pause.scope is PauseScope.HOST for pause in known):
        row = catalog.node(conn, node_id)
        known = tuple(over_nodes(known, () if row is None else (row,)))
    node, cluster = node_id or NodeId(""), cluster_id or ClusterId("")
    for kind in (PauseKind.STOP, PauseKind.MAINTENANCE):
        for pause in covering(known, kind, node, cluster, now_us):
            return f"{kind.value} by {pause.owner}: {pause.reason}"
    return ""
