"""Tells each watch when its cluster's rows have changed: one read for all clusters, not one for each.

A thousand watches that each ask the database every second leave no room for anybody else. So one
loop reads a few numbers per cluster, and only the watches of those that differ read their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import structlog

from yaffle.errors import StoreUnavailable
from yaffle.store import holdings, leases, stamps

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.engine.kit import Kit
    from yaffle.engine.session import Session
    from yaffle.engine.watch import Watch
    from yaffle.model.ids import ClusterId

log = structlog.get_logger()

SHARE: Final = 2.0
"""After a read we rest for so many times as long as it took: a third of one core at the most."""
REST_S_MAX: Final = 1.0


class Stamps:
    """Compares what the database says of every cluster with what it said before."""

    def __init__(
        self, kit: Kit, session: Session, watches: Callable[[], Mapping[ClusterId, Watch]]
    ) -> None:
        self._kit = kit
        self._session = session
        self._watches = watches
        self._known: Mapping[ClusterId, stamps.Stamp] = {}
        self._known_holds: stamps.Stamp = ()

    async def run(self) -> None:
        """Look after every change that this process hears of, and every poll."""
        clock = self._kit.clock
        while True:
            began_s = clock.monotonic_s()
            await self._look()
            took_s = clock.monotonic_s() - began_s
            await clock.sleep(min(took_s * SHARE, REST_S_MAX))
            await self._kit.signals.clusters.wait(self._kit.settings.poll)

    async def _look(self) -> None:
        try:
            now, holds, unwatched = await self._kit.store.read(self._read)
        except StoreUnavailable as error:
            log.warning("cannot see what changed", error=str(error))
            # Each finds out by itself that the database is away, and resettles when it is back.
            for watch in self._watches().values():
                watch.notice()
            return
        if unwatched:
            self._kit.signals.watches.ring()
        for ident, watch in self._watches().items():
            if ident not in now or now[ident] != self._known.get(ident):
                watch.notice()
            if holds != self._known_holds:
                watch.reconsider()
        self._known, self._known_holds = now, holds

    def _read(
        self, conn: Connection
    ) -> tuple[Mapping[ClusterId, stamps.Stamp], stamps.Stamp, bool]:
        held = leases.held(conn, self._session.me, self._session.epoch)
        every = stamps.all_clusters(conn)
        mine = {i: s for i, s in every.items() if i in held}
        return mine, stamps.of_holds(conn), holdings.any_free(conn)
