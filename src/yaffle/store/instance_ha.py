"""Failover segments and their hosts, notifications of other monitors, and the moves that came of them.

new ──▶ running ──▶ finished | failed
 └────▶ finished | ignored
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import case, func, insert, select, update
from sqlalchemy import delete as delete_from

from yaffle.model.instance_ha import (
    UNDER_WAY,
    NotificationOrigin,
    NotificationStatus,
    NotificationType,
)
from yaffle.store.rows import load
from yaffle.store.tables import (
    failover_hosts,
    failover_segments,
    ha_notifications,
    nodes,
    vm_moves,
)

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection

DUPLICATE_US: Final = 180_000_000
"""Masakari's `duplicate_notification_detection_interval`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRow:
    """A failover segment."""

    seq: int
    id: str
    name: str
    service_type: str
    recovery_method: str
    description: str | None
    enabled: bool
    created_us: int
    updated_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentHostRow:
    """A host of a segment."""

    seq: int
    id: str
    name: str
    segment_id: str
    type: str | None
    control_attributes: str | None
    reserved: bool
    on_maintenance: bool
    spare_for: str
    created_us: int
    updated_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationRow:
    """What another monitor has told."""

    seq: int
    id: str
    type: str
    host: str
    host_id: str
    segment_id: str
    origin: str
    sender: str
    payload: Mapping[str, str]
    generated_us: int
    status: str
    message: str | None
    created_us: int
    updated_us: int | None
    ended_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRow:
    """A node that a notification is about, and how far it is."""

    seq: int
    id: str
    notification_id: str
    node_id: str
    instance_id: str
    instance_name: str
    source_host: str
    dest_host: str | None
    status: str
    message: str | None
    started_us: int | None
    ended_us: int | None
    created_us: int
    updated_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedNode:
    """A node that has a copy, as far as it matters where that is."""

    id: str
    name: str
    physical_id: str
    attributes: Mapping[str, object]


class Kind(Enum):
    """The kinds of rows that there are here."""

    SEGMENT = failover_segments
    HOST = failover_hosts
    NOTIFICATION = ha_notifications
    MOVE = vm_moves


def add(conn: Connection, kind: Kind, values: Mapping[str, object]) -> None:
    """Insert a row."""
    conn.execute(insert(kind.value).values(**values))


def change(conn: Connection, kind: Kind, ident: str, now_us: int, **values: object) -> bool:
    """Change a row; return whether it is there."""
    table = kind.value
    changed = update(table).where(table.c.id == ident).values(updated_us=now_us, **values)
    return conn.execute(changed).rowcount == 1


def segment(conn: Connection, ident: str) -> SegmentRow | None:
    """Return the segment with that id."""
    found = conn.execute(select(failover_segments).where(failover_segments.c.id == ident))
    row = found.one_or_none()
    return None if row is None else load(SegmentRow, row)


def segments(conn: Connection, idents: Sequence[str]) -> Mapping[str, SegmentRow]:
    """Return those of these segments that are there, by id."""
    found = conn.execute(select(failover_segments).where(failover_segments.c.id.in_(idents)))
    return {row.id: load(SegmentRow, row) for row in found}


def delete_segment(conn: Connection, ident: str) -> None:
    """Delete a segment with its hosts."""
    conn.execute(delete_from(failover_hosts).where(failover_hosts.c.segment_id == ident))
    conn.execute(delete_from(failover_segments).where(failover_segments.c.id == ident))


def host(conn: Connection, segment_id: str, ident: str) -> SegmentHostRow | None:
    """Return the host of a segment with that id."""
    where = (failover_hosts.c.id == ident, failover_hosts.c.segment_id == segment_id)
    row = conn.execute(select(failover_hosts).where(*where)).one_or_none()
    return None if row is None else load(SegmentHostRow, row)


def hosts(conn: Connection, idents: Sequence[str]) -> Mapping[str, SegmentHostRow]:
    """Return those of these hosts that are there, by id."""
    found = conn.execute(select(failover_hosts).where(failover_hosts.c.id.in_(idents)))
    return {row.id: load(SegmentHostRow, row) for row in found}


def host_named(conn: Connection, name: str, *, take: bool = False) -> SegmentHostRow | None:
    """Return the host of that name; `take`: no other transaction notifies of it meanwhile."""
    named = failover_hosts.c.name == name
    if take:
        conn.execute(update(failover_hosts).where(named).values(reserved=failover_hosts.c.reserved))
    row = conn.execute(select(failover_hosts).where(named)).one_or_none()
    return None if row is None else load(SegmentHostRow, row)


def spare_of(conn: Connection, failed: SegmentHostRow) -> SegmentHostRow | None:
    """Return the host that takes over from one that failed: it does already, or is next in reserve."""
    table = failover_hosts.c
    fit = (table.segment_id == failed.segment_id, table.on_maintenance.is_(False))
    free = (*fit, table.reserved.is_(True), table.id != failed.id)
    return _first(conn, *fit, table.spare_for == failed.id) or _first(conn, *free)


def taken_spare(conn: Connection, failed: SegmentHostRow) -> SegmentHostRow | None:
    """Return the host that takes over from one that failed, whatever is said of it now.

    Of several the one that was not given up, and the last.
    """
    table = failover_hosts.c
    order = (table.on_maintenance, table.seq.desc())
    return _first(conn, table.spare_for == failed.id, order=order)


def _first(
    conn: Connection,
    *those: ColumnElement[bool],
    order: Sequence[ColumnElement[Any]] = (failover_hosts.c.seq,),
) -> SegmentHostRow | None:
    wanted = select(failover_hosts).where(*those).order_by(*order).limit(1)
    row = conn.execute(wanted).one_or_none()
    return None if row is None else load(SegmentHostRow, row)


def take_spare(conn: Connection, spare: SegmentHostRow, failed: str, now_us: int) -> bool:
    """Have a reserved host take over from one that failed; False where another took it meanwhile."""
    free = (failover_hosts.c.id == spare.id, failover_hosts.c.reserved.is_(True))
    taken = update(failover_hosts).where(*free)
    values = {"reserved": False, "spare_for": failed, "updated_us": now_us}
    return conn.execute(taken.values(**values)).rowcount == 1


def give_back(conn: Connection, ident: str, now_us: int) -> None:
    """Let nothing take over from a host any more: it is back."""
    taken = update(failover_hosts).where(failover_hosts.c.spare_for == ident)
    conn.execute(taken.values(spare_for="", updated_us=now_us))


def delete_host(conn: Connection, ident: str) -> None:
    """Delete a host."""
    conn.execute(delete_from(failover_hosts).where(failover_hosts.c.id == ident))


def is_named(conn: Connection, kind: Kind, name: object, but: str = "") -> bool:
    """Whether another segment or host than `but` has that name."""
    table = kind.value
    other = select(table.c.id).where(table.c.name == name, table.c.id != but)
    return conn.execute(other.limit(1)).one_or_none() is not None


def in_use(conn: Connection, segment_id: str) -> bool:
    """Whether a notification of a segment is under way."""
    open_ = select(ha_notifications.c.id).where(
        ha_notifications.c.segment_id == segment_id, ha_notifications.c.status.in_(UNDER_WAY)
    )
    return conn.execute(open_.limit(1)).one_or_none() is not None


def is_duplicate(
    conn: Connection,
    host_id: str,
    kind: NotificationType,
    payload: Mapping[str, str],
    generated_us: int,
) -> bool:
    """Whether the same was told of a host already, so shortly before that it is a repeat.

    As in Masakari, whatever came of it; but a stamp ahead of our clock counts as of when it arrived, or
    one from the year 2099 would refuse every later one.
    """
    same = select(ha_notifications).where(
        ha_notifications.c.host_id == host_id,
        ha_notifications.c.type == kind.value,
        ha_notifications.c.origin != NotificationOrigin.REFUSED.value,
        ha_notifications.c.generated_us >= generated_us - DUPLICATE_US,
    )
    rows = [load(NotificationRow, row) for row in conn.execute(same)]
    return any(
        dict(row.payload) == dict(payload)
        and (
            row.generated_us == generated_us
            or min(row.generated_us, row.created_us) >= generated_us - DUPLICATE_US
        )
        for row in rows
    )


def notification(conn: Connection, ident: str) -> NotificationRow | None:
    """Return the notification with that id."""
    found = conn.execute(select(ha_notifications).where(ha_notifications.c.id == ident))
    row = found.one_or_none()
    return None if row is None else load(NotificationRow, row)


def notifications(conn: Connection, idents: Sequence[str]) -> Mapping[str, NotificationRow]:
    """Return those of these notifications that are there, by id."""
    found = conn.execute(select(ha_notifications).where(ha_notifications.c.id.in_(idents)))
    return {row.id: load(NotificationRow, row) for row in found}


def of_status(
    conn: Connection, status: NotificationStatus, after: int, limit: int
) -> Sequence[NotificationRow]:
    """Return the notifications of a status whose number comes after `after`, the oldest first."""
    those = select(ha_notifications).where(
        ha_notifications.c.status == status.value, ha_notifications.c.seq > after
    )
    found = conn.execute(those.order_by(ha_notifications.c.seq).limit(limit))
    return [load(NotificationRow, row) for row in found]


def others_since(conn: Connection, row: NotificationRow) -> Sequence[NotificationRow]:
    """Return what else was taken in of its host, and had not ended when it was told of."""
    told = ha_notifications.c
    those = select(ha_notifications).where(
        told.host_id == row.host_id,
        told.id != row.id,
        told.origin != NotificationOrigin.REFUSED.value,
        told.ended_us.is_(None) | (told.ended_us >= row.created_us),
    )
    return [load(NotificationRow, found) for found in conn.execute(those)]


def oldest_under_way_us(conn: Connection) -> int | None:
    """Return when the oldest notification came that is under way; None where none is."""
    open_ = ha_notifications.c.status.in_(UNDER_WAY)
    return conn.execute(select(func.min(ha_notifications.c.created_us)).where(open_)).scalar()


def newest(conn: Connection, *, host: str | None, limit: int) -> Sequence[NotificationRow]:
    """Return notifications, all or those of a host, the newest first."""
    wanted = select(ha_notifications)
    if host is not None:
        wanted = wanted.where(ha_notifications.c.host == host)
    found = conn.execute(wanted.order_by(ha_notifications.c.seq.desc()).limit(limit))
    return [load(NotificationRow, row) for row in found]


def words_on_hosts(conn: Connection, *, since_us: int, limit: int) -> Sequence[NotificationRow]:
    """Return what was told of hosts since then, the latest first.

    By when it was told of by its sender, and when it arrived where that stamp lies ahead; of two of one
    time, what arrived last. `limit` leaves out the earliest, whatever their hosts.
    """
    told = ha_notifications.c
    at_us = case((told.generated_us < told.created_us, told.generated_us), else_=told.created_us)
    words = (
        select(ha_notifications)
        .where(told.type == NotificationType.COMPUTE_HOST.value, told.created_us >= since_us)
        .order_by(at_us.desc(), told.seq.desc())
        .limit(limit)
    )
    return [load(NotificationRow, row) for row in conn.execute(words)]


def is_heard(
    conn: Connection, host: str, sender: str, generated_us: int, payload: Mapping[str, str]
) -> bool:
    """Whether a sender's very word on a host is there."""
    told = ha_notifications.c
    same = select(told.payload).where(
        told.type == NotificationType.COMPUTE_HOST.value,
        told.host == host,
        told.sender == sender,
        told.generated_us == generated_us,
    )
    return any(dict(found) == dict(payload) for found in conn.execute(same).scalars())


def end(
    conn: Connection, ident: str, status: NotificationStatus, message: str, now_us: int
) -> None:
    """Store how a notification has ended."""
    values = {"status": status.value, "message": message, "ended_us": now_us}
    change(conn, Kind.NOTIFICATION, ident, now_us, **values)


def moves_of(conn: Connection, notification_id: str) -> Sequence[MoveRow]:
    """Return the moves of a notification, in order."""
    which = select(vm_moves).where(vm_moves.c.notification_id == notification_id)
    return [load(MoveRow, row) for row in conn.execute(which.order_by(vm_moves.c.seq))]


def moves(conn: Connection, idents: Sequence[str]) -> Mapping[str, MoveRow]:
    """Return those of these moves that are there, by id."""
    found = conn.execute(select(vm_moves).where(vm_moves.c.id.in_(idents)))
    return {row.id: load(MoveRow, row) for row in found}


def placed_nodes(conn: Connection) -> Sequence[PlacedNode]:
    """Return every node that has a copy."""
    found = select(nodes.c.id, nodes.c.name, nodes.c.physical_id, nodes.c.attributes)
    rows = conn.execute(found.where(nodes.c.physical_id != "").order_by(nodes.c.id))
    return [
        PlacedNode(id=row.id, name=row.name, physical_id=row.physical_id, attributes=row.attributes)
        for row in rows
    ]
