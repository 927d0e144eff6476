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

WORDS_MAX: Final = 1000
"""So many are read, the latest: with a word that counts all that came after it are there."""


class StoredNotifications:
    """The notifications of one database."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock

    async def words(self) -> tuple[NotifiedHost, ...]:
        """Return what was notified of hosts within a day, the latest first; of very much the latest."""
        since_us = self._clock.now_us() - KEPT_US
        rows = await self._store.read(
            lambda conn: instance_ha.words_on_hosts(conn, since_us=since_us, limit=WORDS_MAX)
        )
        return tuple(map(_word, rows))


def _word(row: NotificationRow) -> NotifiedHost:
    event = row.payload.get("event")
    clear = row.payload.get("host_status") == NORMAL
    off = True if event == STOPPED and clear else False if event == STARTED else None
    return NotifiedHost(
        host=row.host,
        off=off,
        at_s=min(row.generated_us, row.created_us) // 1_000_000,
        origin=NotificationOrigin(row.origin),
        sender=row.sender,
    )


if TYPE_CHECKING:
    _conforms: type[NotifiedHosts] = StoredNotifications
