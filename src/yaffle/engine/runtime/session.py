"""An engine's session: one epoch and lease, and no act after the lease has run out.

The holder's own deadline is monotonic and was taken *before* the database was asked, so it always
ends before the database would give the lease to somebody else. An engine that finds its lease
expired (frozen, suspended, cut off) ends the session; the next one has a new epoch and resettles.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import structlog

from yaffle.engine.runtime.clock_sync import keep_time
from yaffle.errors import StoreUnavailable, YaffleError
from yaffle.model.ids import EngineId, Epoch
from yaffle.model.timing import CALL_GRACE_S
from yaffle.store import catalog, leases

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from yaffle.engine.runtime.context import EngineContext
    from yaffle.model.ids import ClusterId

log = structlog.get_logger()

T = TypeVar("T")

RENEWALS_PER_LEASE = 4
STORE_RETRY_S = 1.0
WRITERS = 4
"""Watches whose beliefs and plans are being written at once; the database writes one at a time."""
READERS = 2
"""Watches that read at once, of the store's four; at a start every one of them does."""
CALL_SHARE = 0.4
GRACE_SHARE = 0.1
"""Shares of a lease; with their sum below what a renewal leaves, an act never waits for ever."""


class LeaseLost(YaffleError):
    """Raised when the session is over: stop acting, and register again."""


class Session:
    """A session of an engine: its epoch, lease and right to act."""

    def __init__(self, ctx: EngineContext, me: EngineId, epoch: Epoch, deadline_s: float) -> None:
        self.me = me
        self.epoch = epoch
        self.turns = asyncio.Semaphore(WRITERS)
        """Of the watches that write: a thousand at once would let each other's writes time out."""
        self.looks = asyncio.Semaphore(READERS)
        """Of the watches that read their rows: those who ask over HTTP must not stand behind them."""
        self.stuck: set[ClusterId] = set()
        """Clusters whose watch stands still here: their leases are not renewed."""
        self._ctx = ctx
        self._deadline_s = deadline_s

    @classmethod
    async def begin(cls, ctx: EngineContext) -> Session:
        """Register this engine under a new epoch; waits for the database as long as it takes."""
        while True:
            # A new name each time: an answer that was lost may have left the last one registered.
            me = EngineId(ctx.new_id())
            try:
                # What is judged from now on rests on times that others wrote.
                await keep_time(ctx.store, ctx.clock)
                asked_s = ctx.clock.monotonic_s()
                epoch = await ctx.store.write(
                    lambda conn, me=me: _registered(conn, ctx, me)  # type: ignore[misc]
                )
            except StoreUnavailable as error:
                ctx.metrics.database.set(0)
                log.warning("database unavailable", error=str(error), doing="registering")
                await ctx.clock.sleep(STORE_RETRY_S)
                continue
            log.info("session began", engine=me, epoch=epoch)
            await _say_what_is_missing(ctx)
            return cls(ctx, me, epoch, asked_s + ctx.settings.lease)

    def left_s(self) -> float:
        """Seconds for which this engine may still act; negative once the lease is over."""
        return self._deadline_s - self._ctx.clock.monotonic_s()

    def may_act(self, need_s: float = 0.0) -> bool:
        """Whether a call that takes `need_s` would end within the lease."""
        return self.left_s() > need_s

    def call_s(self, longest_s: float) -> float:
        """The time limit of one driver call (s), well within a lease."""
        return min(longest_s, self._ctx.settings.lease * CALL_SHARE)

    def grace_s(self) -> float:
        """Return how much longer than its limit a driver call is waited for (s)."""
        return min(CALL_GRACE_S, self._ctx.settings.lease * GRACE_SHARE)

    async def until_may_act(self, need_s: float) -> None:
        """Wait until `need_s` fit into the lease; raise LeaseLost if it runs out meanwhile."""
        while not self.may_act(need_s):
            if not self.may_act():
                raise LeaseLost(f"the lease of epoch {self.epoch} ran out before an act")
            await self._ctx.clock.sleep(0.05)

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Do `work` in the database, and wait while that is away; raises LeaseLost with the lease.

        Whoever has the action once the lease is over reads the target instead of what was not written.
        It fails closed: what cannot be asked for is not known to be allowed, and waits.
        """
        while True:
            try:
                return await self._ctx.store.write(work)
            except StoreUnavailable as error:
                log.warning("database unavailable", doing="an action", error=str(error))
                if not self.may_act():
                    raise LeaseLost("the lease ran out while the database was away") from error
                await self._ctx.clock.sleep(STORE_RETRY_S)

    async def keep(self) -> None:
        """Renew the lease until the session is over, then raise LeaseLost."""
        ctx = self._ctx
        pause = ctx.settings.lease / RENEWALS_PER_LEASE
        while True:
            await ctx.clock.sleep(pause)
            asked_s = ctx.clock.monotonic_s()
            try:
                kept = await ctx.store.write(
                    lambda conn: leases.renew(
                        conn,
                        self.me,
                        self.epoch,
                        lease_s=ctx.settings.lease,
                        stuck=tuple(self.stuck),
                    ),
                    timeout_s=ctx.settings.lease,
                )
            except StoreUnavailable as error:
                log.warning("lease not renewed", error=str(error), left_s=round(self.left_s(), 2))
                continue
            # Once it ran out by our own clock, actions have been given up and nobody else may take
            # them while the row still names us: a lease that lapsed is never revived.
            if not kept or not self.may_act():
                raise LeaseLost(f"the lease of epoch {self.epoch} expired")
            self._deadline_s = asked_s + ctx.settings.lease

    async def end(self) -> None:
        """Give up lease and watches, so that a successor need not wait."""
        try:
            await self._ctx.store.write(lambda conn: leases.stop(conn, self.me))
        except StoreUnavailable as error:
            log.warning("session not closed", error=str(error))


async def _say_what_is_missing(ctx: EngineContext) -> None:
    """Log which nodes this engine can neither look at nor heal."""
    with suppress(StoreUnavailable):
        for kind, count in (await ctx.store.read(catalog.types_of_nodes)).items():
            if lacks := ctx.drivers.lacks(kind):
                log.warning("nodes cannot be watched or healed here", nodes=count, missing=lacks)


def _registered(conn: Connection, ctx: EngineContext, me: EngineId) -> Epoch:
    # With nobody left to renew, the first who comes has to see that the database's clock went back.
    leases.pull_in(conn, lease_s=ctx.settings.lease)
    return leases.register(conn, me, host=ctx.host, pid=ctx.pid, alone=ctx.alone)
