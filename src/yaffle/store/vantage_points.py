"""Vantage points of host monitors: what each has heard of hosts, as it stored that last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from sqlalchemy import delete, insert, select

from yaffle.model.host_heartbeat import VantagePoint
from yaffle.store.tables import vantage_points

if TYPE_CHECKING:
    from sqlalchemy import Connection

FORGET_US: Final = 30 * 86_400_000_000
"""A vantage point that has stored nothing for so long has left."""


def save(conn: Connection, monitor: str, point: VantagePoint) -> None:
    """Store what one hears, and forget those that have left."""
    table = vantage_points.c
    ours = (table.monitor == monitor) & (table.name == point.name)
    left = (table.monitor == monitor) & (table.at_us < point.at_us - FORGET_US)
    conn.execute(delete(vantage_points).where(ours | left))
    conn.execute(
        insert(vantage_points).values(
            monitor=monitor,
            name=point.name,
            at_us=point.at_us,
            said=msgspec.json.encode(point).decode(),
        )
    )


def listed(conn: Connection, monitor: str) -> tuple[VantagePoint, ...]:
    """Return all of a monitor, by name."""
    wanted = select(vantage_points.c.said).where(vantage_points.c.monitor == monitor)
    rows = conn.execute(wanted.order_by(vantage_points.c.name))
    return tuple(msgspec.json.decode(row.said, type=VantagePoint) for row in rows)
