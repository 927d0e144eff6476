"""Leader leases: which engine dispatches notifications, sweeps orphans, prunes.

A duty has one holder or none. Its lease is renewed with the engine's; whoever finds it free takes
it. Twice at once would send each message twice, and out of order.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from sqlalchemy import BigInteger, bindparam, exists, insert, or_, select, update

from yaffle.store import leases
from yaffle.store.tables import duties, engines

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.model.ids import EngineId, Epoch


class SingletonRole(StrEnum):
    """The duties that there are."""

    OUTBOX = "outbox"
    ALERTS = "alerts"
    UPKEEP = "upkeep"


class Holder(StrEnum):
    """Whose a duty is."""

    OURS = "ours"
    ELSEWHERE = "elsewhere"
    NOBODYS = "nobodys"


# Built once: to build one anew costs more than to carry it out.
_IS_FREE: Final = or_(
    duties.c.lease_us < bindparam("now", type_=BigInteger),
    ~exists().where(engines.c.id == duties.c.owner, engines.c.stopped_us.is_(None)),
)
_HOLDER: Final = select(_IS_FREE.label("free"), duties.c.owner, duties.c.epoch).where(
    duties.c.name == bindparam("duty")
)


def holder(conn: Connection, me: EngineId, epoch: Epoch, duty: SingletonRole) -> Holder:
    """Say whose a duty is, by the database's clock."""
    row = conn.execute(_HOLDER, {"duty": duty.value, "now": leases.now(conn)}).one_or_none()
    if row is None or row.free:
        return Holder.NOBODYS
    return Holder.OURS if (row.owner, row.epoch) == (me, epoch) else Holder.ELSEWHERE


def take(
    conn: Connection, me: EngineId, epoch: Epoch, duty: SingletonRole, *, lease_s: float
) -> bool:
    """Take a duty that is free; return whether it is ours now. Who was frozen takes nothing."""
    if not leases.alive(conn, me, epoch, lease_s=lease_s):
        return False
    now_us = leases.now(conn)
    mine = {"owner": me, "epoch": epoch, "lease_us": now_us + int(lease_s * 1_000_000)}
    if conn.execute(_HOLDER, {"duty": duty.value, "now": now_us}).one_or_none() is None:
        conn.execute(insert(duties).values(name=duty.value, **mine))
        return True
    free = update(duties).where(duties.c.name == duty.value, _IS_FREE)
    return conn.execute(free.values(**mine), {"now": now_us}).rowcount == 1
