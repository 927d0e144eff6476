"""Where vantage points store what they hear of hosts, for the others to read."""

from __future__ import annotations

from typing import Protocol

from yaffle.model.host_heartbeat import VantagePoint


class VantagePoints(Protocol):
    """The vantage points of each host monitor."""

    async def stored(self, monitor: str) -> tuple[VantagePoint, ...]:
        """Return what all have stored; raise StoreUnavailable."""
        ...

    async def share(self, monitor: str, mine: VantagePoint) -> tuple[VantagePoint, ...]:
        """Store what one hears in the place of what it heard before, and return all, as `stored`."""
        ...
