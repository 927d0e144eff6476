"""Polls for other processes' commits, and wakes what depends on them within a fifth of a second.

Every write transaction of every process moves one number (`counters`, row `turn`). To read it is a
look-up by primary key, so each process does that all the time, whatever the size of the fleet; only
when it has moved are a few more questions asked, and only what they find wakes anybody: a wake-up whose
waiter writes for nothing would move the number for everybody else, and so on for ever.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from yaffle.engine.runtime.clock_sync import EVERY_S, keep_time
from yaffle.errors import StoreUnavailable
from yaffle.store import actions, commit_sequence, events, outbox, watch_leases

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.engine.runtime.context import EngineContext

log = structlog.get_logger()

PACE_S: Final = 0.2
IDLE_S: Final = 1.0
"""Pace where nobody waits for the bells, and only the database's health is of interest."""
SHARE: Final = 4.0
"""After a look we rest for at least so many times as long as it took: a slow database is spared."""
REST_S_MAX: Final = 5.0
LOOK_S: Final = 2.0
"""A database that does not answer within this is away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    turn: int
    newest_event: int
    """Number of the newest event."""
    work: bool
    """Whether some action waits to be taken up."""
    free: bool
    """Whether some cluster is watched by nobody."""
    mail: bool
    """Whether some message is due."""


class ChangePoller:
    """One loop per process; what it knows of the database's health is read from other tasks."""

    def __init__(self, ctx: EngineContext, *, pace_s: float = PACE_S) -> None:
        self._ctx = ctx
        self._pace_s = pace_s
        self._seen: _Seen | None = None
        self.heard_s = ctx.clock.monotonic_s()
        """When the database answered last, by the monotonic clock."""
        self._timed_s = self.heard_s - EVERY_S
        self.fault = ""
        """Why it does not answer now; empty while it does."""

    @property
    def silent_s(self) -> float:
        """Seconds since the database answered last."""
        return self._ctx.clock.monotonic_s() - self.heard_s

    async def run(self) -> None:
        """Look until cancelled; an outage is logged once, when it begins, and once when it ends."""
        clock = self._ctx.clock
        while True:
            began_s = clock.monotonic_s()
            await self._look()
            took_s = clock.monotonic_s() - began_s
            await clock.sleep(max(self._pace_s, min(took_s * SHARE, REST_S_MAX)))

    async def _look(self) -> None:
        before = self._seen
        try:
            now = await self._ctx.store.read(
                lambda conn: self._read(conn, before), timeout_s=LOOK_S
            )
        except StoreUnavailable as error:
            if not self.fault:
                log.warning("database away", error=str(error))
            self.fault = str(error)
            return
        if self.fault:
            log.info("database back", after_s=round(self.silent_s, 1))
            self.fault = ""
        self.heard_s = self._ctx.clock.monotonic_s()
        await self._keep_time()
        if now is not None:
            self._seen = now
            self._ring(before, now)
        if now is not None and before is not None and now.turn < before.turn:
            # Whether commits are lost is found by the next write; better now than by an act's.
            with contextlib.suppress(StoreUnavailable):
                await self._ctx.store.write(lambda _conn: None)

    async def _keep_time(self) -> None:
        """Go by the database's clock, which everybody who shares it does."""
        if self.heard_s - self._timed_s < EVERY_S:
            return
        self._timed_s = self.heard_s
        with contextlib.suppress(StoreUnavailable):  # the next look says so
            await keep_time(self._ctx.store, self._ctx.clock)

    def _read(self, conn: Connection, before: _Seen | None) -> _Seen | None:
        """Return what there is; None where nobody has written since."""
        turn = commit_sequence.turn(conn)
        if before is not None and before.turn == turn:
            return None
        now_us = self._ctx.clock.now_us()
        return _Seen(
            turn=turn,
            newest_event=events.newest(conn),
            work=actions.any_claimable(conn),
            free=watch_leases.any_free(conn),
            mail=bool(outbox.due(conn, now_us=now_us, limit=1)),
        )

    def _ring(self, before: _Seen | None, now: _Seen) -> None:
        bells = self._ctx.signals
        if now.work:
            bells.actions.ring()
        if now.free:
            bells.watches.ring()
        if now.mail:
            bells.outbox.ring()
        if before is None or before.newest_event != now.newest_event:
            bells.clusters.ring()
