"""Cancels actions: one that has begun stops at its next step, one that has not ends at once.

Whatever ends without having come to its end leaves a node that says so: a status that nothing is
going to change any more would keep the node from ever being watched and healed again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle.core.health.node_lifecycle import NodeEvent, move
from yaffle.core.recovery.ladder import Stage
from yaffle.core.recovery.node_actions import of_name
from yaffle.engine.cluster_actions import capacity_compensation
from yaffle.engine.cluster_actions.enqueue import only_rows
from yaffle.engine.cluster_actions.member_removal import DELETE
from yaffle.engine.incidents import lifecycle
from yaffle.model.action import ActionKind
from yaffle.model.health import NodeStatus
from yaffle.model.incident import IncidentState
from yaffle.store import actions, catalog, incidents, journal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

    from yaffle.engine.runtime.context import EngineContext
    from yaffle.store.rows import ActionRow, NodeRow


def stop(
    conn: Connection, action: ActionRow, why: str, now_us: int, *, deletions: bool = True
) -> None:
    """Ask an action to stop; one that has not begun, or changes rows alone, ends at once.

    `deletions`: whether parts that delete a node are stopped too.
    """
    if action.action == DELETE and not deletions:
        return
    actions.cancel(conn, action.id, why, now_us)
    unbegun = action.status == actions.READY and action.incident_id is None
    for part in actions.parts(conn, action.id) if only_rows(action) else ():
        if part.status in actions.UNFINISHED:
            stop(conn, part, why, now_us, deletions=deletions)
    if only_rows(action) or unbegun or action.status in {actions.WAITING, actions.HOOKED}:
        _end(conn, action, why, now_us)
        _spared(conn, action, why, now_us)


def _end(conn: Connection, action: ActionRow, why: str, now_us: int) -> None:
    actions.end(conn, action.id, now_us, status=actions.CANCELLED, reason=why, outputs={})
    capacity_compensation.give_back(conn, action, now_us)


def _spared(conn: Connection, action: ActionRow, why: str, now_us: int) -> None:
    """Set the node's status after an act on it that was cancelled before it began."""
    node = None if action.node_id is None else catalog.node(conn, action.node_id)
    if node is None:
        return
    if action.action == ActionKind.NODE_CREATE:
        _move(conn, node, NodeEvent.CREATE_FAILED, why, now_us)
    elif action.action == DELETE and node.status == NodeStatus.DELETING:
        _move(conn, node, deletion_cancelled(action.inputs), why, now_us)


def deletion_cancelled(inputs: Mapping[str, object]) -> NodeEvent:
    """Return what a deletion that was cancelled before it began is, from that action's inputs.

    What was being done to the node when its deletion was asked for has been stopped.
    """
    failed = inputs.get("was") == NodeStatus.ERROR or inputs.get("tries")
    return NodeEvent.DELETE_BROKEN_OFF if failed else NodeEvent.DELETE_SPARED


def _is_making(conn: Connection, action: ActionRow) -> bool:
    """Whether the action may be making a copy of the node right now."""
    steps = journal.of_action(conn, action.id) if action.status == actions.RUNNING else ()
    return any(s.stage == Stage.CREATE and s.phase != journal.ENDED for s in steps)


def _move(conn: Connection, node: NodeRow, event: NodeEvent, why: str, now_us: int) -> None:
    if values := move(node, event, why):
        catalog.set_node(conn, node.id, now_us, **values)


def cut_off(ctx: EngineContext, conn: Connection, action: ActionRow, why: str, now_us: int) -> None:
    """End an action by force and release its lock; its executor finds out at its next write.

    A driver's call may be under way: what it comes to is seen by the watch or the next deletion.
    But an action that is making a copy keeps its lock until that is over: a copy that comes to be
    after its node was deleted is found late, if at all (design/failure#recovery).
    """
    fresh = actions.get(conn, action.id)
    if fresh is None or fresh.status not in actions.UNFINISHED or _is_making(conn, fresh):
        return
    _end(conn, fresh, why, now_us)
    node = None if fresh.node_id is None else catalog.node(conn, fresh.node_id)
    if node is None or fresh.status != actions.RUNNING:
        return
    kind = of_name(fresh.action)
    if kind.may_break_off or node.status == NodeStatus.RECOVERING:
        deleting = fresh.action == DELETE
        event = NodeEvent.DELETE_BROKEN_OFF if deleting else NodeEvent.BROKEN_OFF
        _move(conn, node, event, why, now_us)
    incident = incidents.open_of(conn, node.id)
    if incident is not None and incident.id == fresh.incident_id:
        # A node that is still ill opens another one, as soon as the watch says so.
        lifecycle.transition(
            ctx, conn, node, incident, IncidentState.SUPERSEDED, reason=why, now_us=now_us
        )
