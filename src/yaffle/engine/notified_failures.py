"""Follows what other monitors have notified, until the nodes that it is about run elsewhere or are well.

Nothing is recovered on their word: detection and recovery go their own way, by each cluster's policy.
What is done here is to keep the notification's status, the host's maintenance, and to check nodes that
seem well although their host is said to have failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
    from yaffle.store.instance_ha import MoveRow, NotificationRow, PlacedNode
    from yaffle.store.rows import ActionRow, NodeRow

AT_ONCE: Final = 50
"""So many notifications are begun, and so many followed, in one look; others come in the next ones."""
FOLLOWED: Final = "HOST_NOTIFICATION"
"""The action of the events of a notification: taken in, followed, ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """A node that a notification is about, as it was found."""

    move: MoveRow
    status: MoveStatus
    why: str
    host: str
    """On which host it is."""
    check: NodeId | None
    """The node, if it is to be looked at."""

    @property
    def news(self) -> bool:
        """Whether anything is to be stored."""
        said = (self.status.value, self.why) != (self.move.status, self.move.message)
        return said or self.check is not None


class NotifiedFailures:
    """Follows notifications; whoever has the upkeep does it."""

    def __init__(self, ctx: EngineContext) -> None:
        self._ctx = ctx
        self._after = 0
        """The number of the last one that was followed: each has its turn, however many there are."""

    async def look(self) -> None:
        """Begin what is new, and take others one step further; raises StoreUnavailable."""
        store, new, running = self._ctx.store, NotificationStatus.NEW, NotificationStatus.RUNNING
        begins = await store.read(lambda conn: instance_ha.of_status(conn, new, 0, AT_ONCE))
        if begins:
            # All that there are, so not while others wait to write.
            nodes = await store.read(instance_ha.placed_nodes)
            await store.write(lambda conn: self._begin(conn, begins, nodes))
        after = self._after
        rows = await store.read(lambda conn: instance_ha.of_status(conn, running, after, AT_ONCE))
        for row in rows:
            # One that the database cannot answer in time keeps no other from its turn.
            self._after = row.seq
            await self._follow(row)
        if len(rows) < AT_ONCE:
            self._after = 0

    async def _follow(self, row: NotificationRow) -> None:
        moves = await self._ctx.store.read(lambda conn: _judged(self._ctx, conn, row))
        # Most looks find nothing new, and none but those that do keep others from writing.
        if any(one.news for one in moves) or ended([one.status for one in moves]):
            await self._ctx.store.write(lambda conn: self._store(conn, row, moves))
            self._ctx.signals.actions.ring()

    def _begin(
        self, conn: Connection, rows: Sequence[NotificationRow], nodes: Sequence[PlacedNode]
    ) -> None:
        for row in rows:
            present = instance_ha.notification(conn, row.id)
            if present is not None and present.status == NotificationStatus.NEW:
                _begin(self._ctx, conn, present, nodes)

    def _store(self, conn: Connection, row: NotificationRow, moves: Sequence[_Judged]) -> None:
        present = instance_ha.notification(conn, row.id)
        if present is None or present.status != NotificationStatus.RUNNING:
            return
        for one in moves:
            _keep(self._ctx, conn, row, one)
        _over(self._ctx, conn, row, ended([one.status for one in moves]))


def _begin(
    ctx: EngineContext, conn: Connection, row: NotificationRow, nodes: Sequence[PlacedNode]
) -> None:
    what = _beginning(conn, row)
    if what.maintenance:
        _maintain(ctx, conn, row, on=True)
    match what.begin:
        case Begin.IGNORE:
            _end(ctx, conn, row, NotificationStatus.IGNORED, f"ignored: {what.why}")
        case Begin.FINISH:
            _end(ctx, conn, row, NotificationStatus.FINISHED, what.why)
        case Begin.FOLLOW:
            _set_out(ctx, conn, row, what, nodes)


def _beginning(conn: Connection, row: NotificationRow) -> Beginning:
    segment = instance_ha.segment(conn, row.segment_id) if row.segment_id else None
    told = Told(
        type=NotificationType(row.type),
        event=str(row.payload.get("event", "")),
        host_status=str(row.payload.get("host_status", "")),
        enabled=segment is None or segment.enabled,
    )
    return beginning(told)


def _set_out(
    ctx: EngineContext,
    conn: Connection,
    row: NotificationRow,
    what: Beginning,
    nodes: Sequence[PlacedNode],
) -> None:
    """Note the nodes that a notification is about; it ends at once where there are none."""
    now_us = ctx.clock.now_us()
    concerned = [node for node in nodes if _concerns(ctx, row, node)]
    for node in concerned:
        move = {
            "id": ctx.new_id(),
            "notification_id": row.id,
            "node_id": node.id,
            "instance_id": node.physical_id,
            "instance_name": node.name,
            "source_host": str(node.attributes.get("host") or row.host),
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


def _concerns(ctx: EngineContext, row: NotificationRow, node: PlacedNode) -> bool:
    if row.type == NotificationType.VM:
        return node.physical_id == row.payload.get("instance_uuid")
    host = str(node.attributes.get("host") or "")
    return bool(host) and ctx.hosts.hostname(host) == ctx.hosts.hostname(row.host)


def _judged(ctx: EngineContext, conn: Connection, row: NotificationRow) -> list[_Judged]:
    return [_judge(ctx, conn, row, move) for move in instance_ha.moves_of(conn, row.id)]


def _judge(ctx: EngineContext, conn: Connection, row: NotificationRow, move: MoveRow) -> _Judged:
    """Judge one node anew; what is over stays so."""
    before = MoveStatus(move.status)
    if before in OVER:
        return _Judged(move=move, status=before, why=move.message or "", host="", check=None)
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
    # One that seems well for long is looked at; one that is busy is so later.
    since_us = row.created_us if check is None else check.created_us
    due = (
        node is not None
        and status is MoveStatus.PENDING
        and member.health is Health.HEALTHY
        and now_us - since_us > WELL_US
        and lock_owners.lock_holder(conn, node.id) is None
    )
    return _Judged(
        move=move,
        status=status,
        why=why[:4000],
        host=member.host,
        check=node.id if node is not None and due else None,
    )


def _keep(ctx: EngineContext, conn: Connection, row: NotificationRow, one: _Judged) -> None:
    """Store what has changed of a node, and have it looked at where that is due."""
    now_us, move = ctx.clock.now_us(), one.move
    if (one.status.value, one.why) != (move.status, move.message):
        began = None if one.status is MoveStatus.PENDING else now_us
        instance_ha.change(
            conn,
            Kind.MOVE,
            move.id,
            now_us,
            status=one.status.value,
            message=one.why,
            dest_host=one.host if one.status is MoveStatus.SUCCEEDED else None,
            started_us=move.started_us or began,
            ended_us=now_us if one.status in OVER else None,
        )
    node = None if one.check is None else catalog.node(conn, one.check)
    if node is not None and lock_owners.lock_holder(conn, node.id) is None:
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


def _cause(row: NotificationRow) -> str:
    return f"notification {row.id}"


def _over(ctx: EngineContext, conn: Connection, row: NotificationRow, how: Ended | None) -> None:
    if how is None:
        return
    if how.false_alarm and _is_well(conn, row):
        _maintain(ctx, conn, row, on=False)
    _end(ctx, conn, row, how.status, how.message)


def _is_well(conn: Connection, row: NotificationRow) -> bool:
    """Whether the host of a false alarm is well: a node of it was found so, and nothing else was told.

    A stopped process keeps its host on maintenance until somebody has seen to it.
    """
    if not _beginning(conn, row).maintenance:
        return False
    others = instance_ha.others_since(conn, row)
    return not any(
        _beginning(conn, one).maintenance
        and (one.ended_us is None or one.type == NotificationType.PROCESS)
        for one in others
    ) and any(
        catalog.node(conn, NodeId(move.node_id)) for move in instance_ha.moves_of(conn, row.id)
    )


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
        now_us = ctx.clock.now_us()
        instance_ha.change(conn, Kind.HOST, row.host_id, now_us, on_maintenance=on, **more)
        if not on:
            instance_ha.give_back(conn, row.host_id, now_us)


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
