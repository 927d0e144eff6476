"""Stores what each vantage point hears of hosts in the database that all engines share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle.ports.vantage_points import VantagePoints
from yaffle.store import vantage_points

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.model.host_heartbeat import VantagePoint
    from yaffle.store.database import Store


class StoredVantagePoints:
    """The vantage points of one database."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def stored(self, monitor: str) -> tuple[VantagePoint, ...]:
        """As `VantagePoints`."""
        return await self._store.read(lambda conn: vantage_points.listed(conn, monitor))

    async def share(self, monitor: str, mine: VantagePoint) -> tuple[VantagePoint, ...]:
        """As `VantagePoints`."""

        def write(conn: Connection) -> tuple[VantagePoint, ...]:
            vantage_points.save(conn, monitor, mine)
            return vantage_points.listed(conn, monitor)

        return await self._store.write(write)


if TYPE_CHECKING:
    _conforms: type[VantagePoints] = StoredVantagePoints
