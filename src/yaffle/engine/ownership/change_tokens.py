"""Tells watchers that their cluster's rows have changed: one read for all clusters.

A thousand watches that each ask the database every second leave no room for anybody else. So one
loop reads a few numbers per cluster, and only the watches of those that differ read their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import structlog

from yaffle.errors import StoreUnavailable
from yaffle.store import change_tokens, leases, watch_leases

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.engine.cluster_watcher import ClusterWatcher
    from yaffle.engine.runtime.context import EngineContext
    from yaffle.engine.runtime.session import Session
    from yaffle.model.ids import ClusterId

log = structlog.get_logger()

SHARE: Final = 2.0
"""After a read we rest for so many times as long as it took: a third of one core at the most."""
REST_S_MAX: Final = 1.0


class ChangeTokens:
    """Compares what the database says of every cluster with what it said before."""

    def __init__(
        self,
        ctx: EngineContext,
        session: Session,
        watches: Callable[[], Mapping[ClusterId, ClusterWatcher]],
    ) -> None:
        self._ctx = ctx
        self._session = session
        self._watches = watches
        self._known: Mapping[ClusterId, change_tokens.Stamp] = {}
        self._known_holds: change_tokens.Stamp = ()

    async def run(self) -> None:
        """Look after every change that this process hears of, and every poll."""
        clock = self._ctx.clock
        while True:
            began_s = clock.monotonic_s()
            await self._look()
            took_s = clock.monotonic_s() - began_s
            await clock.sleep(min(took_s * SHARE, REST_S_MAX))
            await self._ctx.signals.clusters.wait(self._ctx.settings.poll)

    async def _look(self) -> None:
        try:
            now, holds, unwatched = await self._ctx.store.read(self._read)
        except StoreUnavailable as error:
            log.warning("cannot see what changed", error=str(error))
            # Each finds out by itself that the database is away, and resettles when it is back.
            for watch in self._watches().values():
                watch.notice()
            return
        if unwatched:
            self._ctx.signals.watches.ring()
        for ident, watch in self._watches().items():
            if ident not in now or now[ident] != self._known.get(ident):
                watch.notice()
            if holds != self._known_holds:
                watch.reconsider()
        self._known, self._known_holds = now, holds

    def _read(
        self, conn: Connection
    ) -> tuple[Mapping[ClusterId, change_tokens.Stamp], change_tokens.Stamp, bool]:
        held = leases.held(conn, self._session.me, self._session.epoch)
        every = change_tokens.all_clusters(conn)
        mine = {i: s for i, s in every.items() if i in held}
        return mine, change_tokens.of_holds(conn), watch_leases.any_free(conn)
