"""Reads, for host monitors, what has been notified of hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yaffle.model.instance_ha import NORMAL, STARTED, STOPPED, NotificationOrigin
from yaffle.ports.notified_hosts import NotifiedHost, NotifiedHosts
from yaffle.store import instance_ha

if TYPE_CHECKING:
    from yaffle.ports import Clock
    from yaffle.store.database import Store
    from yaffle.store.instance_ha import NotificationRow

KEPT_US: Final = 86_400_000_000
"""So long counts a word: what is older is of a host of which much may have happened since."""


class StoredNotifications:
    """The notifications of one database."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock

    async def latest(self) -> tuple[NotifiedHost, ...]:
        """Return the latest word on each host of which anything was notified within a day."""
        since_us = self._clock.now_us() - KEPT_US
        rows = await self._store.read(
            lambda conn: instance_ha.latest_of_hosts(conn, since_us=since_us)
        )
        return tuple(word for row in rows.values() if (word := _word(row)) is not None)


def _word(row: NotificationRow) -> NotifiedHost | None:
    """Return what a notification says of its host; None where it does not say whether it is off."""
    event = row.payload.get("event")
    clear = row.payload.get("host_status") == NORMAL
    if not (event == STARTED or (event == STOPPED and clear)):
        return None
    return NotifiedHost(
        host=row.host,
        off=event == STOPPED,
        at_s=min(row.generated_us, row.created_us) // 1_000_000,
        origin=NotificationOrigin(row.origin),
        sender=row.sender,
    )


if TYPE_CHECKING:
    _conforms: type[NotifiedHosts] = StoredNotifications
