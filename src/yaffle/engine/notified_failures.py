"""Follows what other monitors have notified, until the nodes that it is about run elsewhere or are well.

Nothing is recovered on their word: detection and recovery go their own way, by each cluster's policy.
What is done here is to keep the notification's status, the host's maintenance, and to check nodes that
seem well although their host is said to have failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from yaffle.core.health.notified_failure import (
    OVER,
    WELL_US,
    Begin,
    Beginning,
    Member,
    Source,
    Told,
    beginning,
    ended,
    judge,
)
from yaffle.core.recovery.ladder import Result
from yaffle.engine.cluster_actions.enqueue import queue
from yaffle.model.action import ActionKind
from yaffle.model.authz import LOCAL
from yaffle.model.health import Health
from yaffle.model.ids import NodeId
from yaffle.model.incident import IncidentState
from yaffle.model.instance_ha import (
    MoveStatus,
    NotificationStatus,
    NotificationType,
)
from yaffle.store import actions, catalog, events, incidents, instance_ha, journal, lock_owners
from yaffle.store.instance_ha import Kind

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.core.health.notified_failure import Ended
    from yaffle.engine.runtime.context import EngineContext
    from yaffle.store.instance_ha import MoveRow, NotificationRow
    from yaffle.store.rows import ActionRow, NodeRow

AT_ONCE: Final = 100
"""So many notifications are followed in one transaction; others come after those that end."""
FOLLOWED: Final = "HOST_NOTIFICATION"
"""The action of the events of a notification: taken in, followed, ended."""


def follow(ctx: EngineContext, conn: Connection) -> None:
    """Take every notification that is under way one step further."""
    for row in instance_ha.under_way(conn, AT_ONCE):
        if row.status == NotificationStatus.NEW:
            _begin(ctx, conn, row)
        else:
            _go_on(ctx, conn, row)


def _begin(ctx: EngineContext, conn: Connection, row: NotificationRow) -> None:
    segment = instance_ha.segment(conn, row.segment_id) if row.segment_id else None
    told = Told(
        type=NotificationType(row.type),
        event=str(row.payload.get("event", "")),
        host_status=str(row.payload.get("host_status", "")),
        enabled=segment is None or segment.enabled,
    )
    what = beginning(told)
    if what.maintenance:
        _maintain(ctx, conn, row, on=True)
    match what.begin:
        case Begin.IGNORE:
            _end(ctx, conn, row, NotificationStatus.IGNORED, f"ignored: {what.why}")
        case Begin.FINISH:
            _end(ctx, conn, row, NotificationStatus.FINISHED, what.why)
        case Begin.FOLLOW:
            _set_out(ctx, conn, row, what)


def _set_out(ctx: EngineContext, conn: Connection, row: NotificationRow, what: Beginning) -> None:
    """Note the nodes that a notification is about; it ends at once where there are none."""
    now_us = ctx.clock.now_us()
    concerned = [node for node in instance_ha.placed_nodes(conn) if _concerns(ctx, row, *node[2:])]
    for ident, name, physical_id, attributes in concerned:
        move = {
            "id": ctx.new_id(),
            "notification_id": row.id,
            "node_id": ident,
            "instance_id": physical_id,
            "instance_name": name,
            "source_host": str(attributes.get("host") or row.host),
            "status": MoveStatus.PENDING.value,
            "created_us": now_us,
        }
        instance_ha.add(conn, Kind.MOVE, move)
    if not concerned:
        _over(ctx, conn, row, ended([]))
        return
    said = f"{what.why}: {len(concerned)} nodes of ours are concerned"
    running = NotificationStatus.RUNNING
    instance_ha.change(conn, Kind.NOTIFICATION, row.id, now_us, status=running.value, message=said)
    _event(ctx, conn, row, running, said)


def _concerns(
    ctx: EngineContext, row: NotificationRow, physical_id: str, facts: Mapping[str, object]
) -> bool:
    if row.type == NotificationType.VM:
        return physical_id == row.payload.get("instance_uuid")
    host = str(facts.get("host") or "")
    return bool(host) and ctx.hosts.hostname(host) == ctx.hosts.hostname(row.host)


def _go_on(ctx: EngineContext, conn: Connection, row: NotificationRow) -> None:
    statuses = [_moved(ctx, conn, row, move) for move in instance_ha.moves_of(conn, row.id)]
    _over(ctx, conn, row, ended(statuses))


def _moved(ctx: EngineContext, conn: Connection, row: NotificationRow, move: MoveRow) -> MoveStatus:
    """Judge one node anew, store what has changed, and return how far it is."""
    before = MoveStatus(move.status)
    if before in OVER:
        return before
    now_us = ctx.clock.now_us()
    node = catalog.node(conn, NodeId(move.node_id))
    check = None if node is None else actions.last_caused(conn, node.id, _cause(row))
    member = _member(conn, row, node, check)
    source = Source(
        host=move.source_host,
        moves=row.type == NotificationType.COMPUTE_HOST,
        since_us=row.created_us,
        now_us=now_us,
    )
    status, why = judge(member, source)
    if (status, why) != (before, move.message):
        over = status in OVER
        began = move.started_us or (now_us if status is not MoveStatus.PENDING else None)
        instance_ha.change(
            conn,
            Kind.MOVE,
            move.id,
            now_us,
            status=status.value,
            message=why[:4000],
            dest_host=member.host if status is MoveStatus.SUCCEEDED else None,
            started_us=began,
            ended_us=now_us if over else None,
        )
    if node is not None and status is MoveStatus.PENDING and member.health is Health.HEALTHY:
        _check(ctx, conn, row, node, check)
    return status


def _member(
    conn: Connection, row: NotificationRow, node: NodeRow | None, check: ActionRow | None
) -> Member:
    if node is None:
        return Member(exists=False)
    incident = incidents.last_of(conn, node.id)
    if incident is not None and (incident.ended_us or row.created_us) < row.created_us:
        incident = None
    past = () if check is None else journal.of_action(conn, check.id)
    return Member(
        host=str(node.attributes.get("host") or ""),
        health=Health(node.health),
        found_well=any(step.result == Result.HEALTHY for step in past),
        incident=None if incident is None else IncidentState(incident.state),
        why="" if incident is None else incident.reason,
    )


def _check(
    ctx: EngineContext,
    conn: Connection,
    row: NotificationRow,
    node: NodeRow,
    check: ActionRow | None,
) -> None:
    """Have a node looked at that seems well for long; one that is busy is so later."""
    since_us = row.created_us if check is None else check.created_us
    due = ctx.clock.now_us() - since_us > WELL_US
    if due and lock_owners.lock_holder(conn, node.id) is None:
        queue(
            ctx,
            conn,
            action=ActionKind.NODE_CHECK,
            who=LOCAL,
            target=node.id,
            cluster_id=node.cluster_id,
            node_id=node.id,
            cause=_cause(row),
            lock_key=node.id,
        )


def _cause(row: NotificationRow) -> str:
    return f"notification {row.id}"


def _over(ctx: EngineContext, conn: Connection, row: NotificationRow, how: Ended | None) -> None:
    if how is None:
        return
    if how.false_alarm:
        _maintain(ctx, conn, row, on=False)
    _end(ctx, conn, row, how.status, how.message)


def _end(
    ctx: EngineContext,
    conn: Connection,
    row: NotificationRow,
    status: NotificationStatus,
    message: str,
) -> None:
    instance_ha.end(conn, row.id, status, message, ctx.clock.now_us())
    _event(ctx, conn, row, status, message)


def _maintain(ctx: EngineContext, conn: Connection, row: NotificationRow, *, on: bool) -> None:
    """Put its host on maintenance, so that nothing more is told of it; or take that back.

    A host that failed is no longer kept in reserve.
    """
    if row.host_id:
        more = {"reserved": False} if on else {}
        instance_ha.change(
            conn, Kind.HOST, row.host_id, ctx.clock.now_us(), on_maintenance=on, **more
        )


def _event(
    ctx: EngineContext,
    conn: Connection,
    row: NotificationRow,
    status: NotificationStatus,
    reason: str,
) -> None:
    failed = status is NotificationStatus.FAILED
    events.append(
        conn,
        events.Subject(otype="HOST", oid=row.id, oname=ctx.hosts.hostname(row.host)),
        at_us=ctx.clock.now_us(),
        action=FOLLOWED,
        status=status.value,
        reason=reason[:4000],
        level=events.ERROR if failed else events.INFO,
        data={"notification": row.id, "type": row.type, "sender": row.sender},
    )
