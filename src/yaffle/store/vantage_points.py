"""Vantage points of host monitors: what each has heard of hosts, as it stored that last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import structlog
from sqlalchemy import delete, insert, select, update

from yaffle.model.host_heartbeat import VantagePoint
from yaffle.model.msgspec_init import UNREADABLE
from yaffle.store.tables import vantage_points

if TYPE_CHECKING:
    from sqlalchemy import Connection

log = structlog.get_logger()

FORGET_US: Final = 30 * 86_400_000_000
"""A vantage point that has stored nothing for so long has left."""


def save(conn: Connection, monitor: str, point: VantagePoint) -> None:
    """Store what one hears in the place of what it heard before, and forget those that have left."""
    table = vantage_points.c
    ours = (table.monitor == monitor) & (table.name == point.name)
    left = (table.monitor == monitor) & (table.at_us < point.at_us - FORGET_US)
    conn.execute(delete(vantage_points).where(left))
    values = {"at_us": point.at_us, "said": msgspec.json.encode(point).decode()}
    if not conn.execute(update(vantage_points).where(ours).values(**values)).rowcount:
        conn.execute(insert(vantage_points).values(monitor=monitor, name=point.name, **values))


def listed(conn: Connection, monitor: str) -> tuple[VantagePoint, ...]:
    """Return all of a monitor that can be read, by name: another program may write them otherwise."""
    wanted = select(vantage_points).where(vantage_points.c.monitor == monitor)
    found = []
    for row in conn.execute(wanted.order_by(vantage_points.c.name)):
        try:
            found.append(msgspec.json.decode(row.said, type=VantagePoint))
        except UNREADABLE as error:
            log.warning("vantage point not read", monitor=monitor, name=row.name, error=str(error))
    return tuple(found)
