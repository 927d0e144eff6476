"""What one engine does for all of them: carrying the news, sweeping remains, pruning history.

A duty has one holder or none. Its lease is renewed with the engine's; whoever finds it free takes
it. Twice at once would send each message twice, and out of order.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from sqlalchemy import exists, insert, or_, select, update

from yaffle.store import leases
from yaffle.store.tables import duties, engines

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection

    from yaffle.model.ids import EngineId, Epoch


class Duty(StrEnum):
    """The duties that there are."""

    OUTBOX = "outbox"
    UPKEEP = "upkeep"


class Holder(StrEnum):
    """Whose a duty is."""

    OURS = "ours"
    ELSEWHERE = "elsewhere"
    NOBODYS = "nobodys"


def holder(conn: Connection, me: EngineId, epoch: Epoch, duty: Duty) -> Holder:
    """Say whose a duty is, by the database's clock."""
    free = select(_is_free(leases.now(conn)).label("free"), duties.c.owner, duties.c.epoch)
    row = conn.execute(free.where(duties.c.name == duty.value)).one_or_none()
    if row is None or row.free:
        return Holder.NOBODYS
    return Holder.OURS if (row.owner, row.epoch) == (me, epoch) else Holder.ELSEWHERE


def take(conn: Connection, me: EngineId, epoch: Epoch, duty: Duty, *, lease_s: float) -> bool:
    """Take a duty that is free; return whether it is ours now. Who was frozen takes nothing."""
    if not leases.alive(conn, me, epoch, lease_s=lease_s):
        return False
    now_us = leases.now(conn)
    mine = {"owner": me, "epoch": epoch, "lease_us": now_us + int(lease_s * 1_000_000)}
    known = select(duties.c.name).where(duties.c.name == duty.value)
    if conn.execute(known).one_or_none() is None:
        conn.execute(insert(duties).values(name=duty.value, **mine))
        return True
    taken = conn.execute(
        update(duties).where(duties.c.name == duty.value, _is_free(now_us)).values(**mine)
    )
    return taken.rowcount == 1


def _is_free(now_us: int) -> ColumnElement[bool]:
    runs = exists().where(engines.c.id == duties.c.owner, engines.c.stopped_us.is_(None))
    return or_(duties.c.lease_us < now_us, ~runs)
