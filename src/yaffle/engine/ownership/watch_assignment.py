"""The watches of this engine: taken when due to it, given up when others should have them.

A watch stops here before its row is given up, and starts elsewhere after its row was taken, so no
cluster is ever planned twice. What nobody holds is taken at once by the engine that should have it
and, after a moment of patience, by any other: nothing stays unwatched while an engine lives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Final

import structlog

from yaffle.core.assignment import Watched, share
from yaffle.engine.cluster_watcher import ClusterWatcher
from yaffle.engine.runtime.session import LeaseLost
from yaffle.errors import StaleEpoch, StoreUnavailable
from yaffle.model.health import Health
from yaffle.model.incident import HoldReason
from yaffle.store import coverage, observer_partitions, watch_leases

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.engine.runtime.context import EngineContext
    from yaffle.engine.runtime.session import Session
    from yaffle.model.ids import ClusterId, EngineId
    from yaffle.store.watch_leases import Overview, WatchLease

log = structlog.get_logger()

PATIENCE_S: Final = 0.5
PATIENCE_SHARE: Final = 0.125
"""Of a lease: for how long what has run out is left to the engine that should have it."""
GIVEN_POLLS: Final = 2
GIVEN_SHARE: Final = 0.5
"""What was given up, or is new, is left to it for so many polls: it need not have seen it yet."""
SOON_S: Final = 0.02
PACE_SHARE: Final = 0.05
"""Of a lease, between two batches of watches that are handed over."""
BATCH: Final = 8
BATCH_SHARE: Final = 0.125
"""Of what is held; a new engine has its share after about half a lease."""
SLOW_LEASES: Final = 10.0
"""For so long an engine that took nothing of what should be its own is offered nothing new."""
STOP_S: Final = 2.0
STUCK_S: Final = 120.0
STUCK_LEASES: Final = 3.0
"""A watch that does not come round for so long stands still; it may have to wait for its turn."""
COVERED_EVERY_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """The present assignment of watches, and the wanted one."""

    seen: Overview
    mine: frozenset[ClusterId]
    """What the rows say is ours, its lease over or not."""
    plan: Mapping[ClusterId, EngineId]
    """Who should hold what; empty where we are the only engine."""
    due: Sequence[WatchLease]
    """What nobody holds and should be ours."""
    left: Sequence[WatchLease]
    """What nobody holds and should be another's."""
    surplus: Sequence[ClusterId]
    """What is ours and should be another's; what we cannot see comes first."""
    blind: Sequence[ClusterId]
    """What we cannot see, and have not said so."""


class WatchAssignment:
    """One loop per session; it owns the tasks of the watches."""

    def __init__(
        self, ctx: EngineContext, session: Session, watches: dict[ClusterId, ClusterWatcher]
    ) -> None:
        self.watches = watches
        """Those that are at work here; shared with whoever reads them."""
        self._ctx = ctx
        self._session = session
        self._tasks: dict[ClusterId, asyncio.Task[None]] = {}
        self._free_since_s: dict[ClusterId, float] = {}
        self._slow_until_s: dict[EngineId, float] = {}
        self._covered_s = ctx.clock.monotonic_s() - COVERED_EVERY_S

    async def run(self) -> None:
        """Take, start, stop and give up watches for as long as the session lasts."""
        ctx = self._ctx
        async with asyncio.TaskGroup() as group:
            while True:
                try:
                    wait_s = await self._turn(group)
                    await self._cover()
                    ctx.metrics.database.set(1)
                except StoreUnavailable as error:
                    log.warning("cannot share watches", error=str(error))
                    ctx.metrics.database.set(0)
                    wait_s = ctx.settings.poll
                except StaleEpoch as error:
                    raise LeaseLost(str(error)) from error
                self._measure()
                await ctx.signals.watches.wait(wait_s)

    async def _turn(self, group: asyncio.TaskGroup) -> float:
        """Reconcile our tasks with the rows, and the rows with the wanted assignment."""
        self._find_stuck()
        stuck = self._session.stuck
        unseen = stuck | {i for i, w in self.watches.items() if w.is_helpless}
        slow = self._slow()
        look = await self._ctx.store.read(lambda conn: self._look(conn, unseen, slow))
        for ident in self._tasks.keys() - look.mine:
            self._stop(ident)
        moving = self._moving(look) if self._session.may_act() else ()
        self._start(group, look.mine.difference(moving, (h.cluster_id for h in look.due)))
        if not self._session.may_act():
            return self._ctx.settings.poll
        giving = await self._stopped(moving)
        taking = [h for h in (*look.due, *self._overdue(look)) if not self._hangs(h.cluster_id)]
        if giving or taking or look.blind:
            taken = await self._ctx.store.write(
                lambda conn: self._settle(conn, look, giving, taking)
            )
            self._start(group, taken)
            self._tell(giving, taking, taken)
        return self._wait_s(look)

    # --- deciding ------------------------------------------------------------------------------

    def _look(self, conn: Connection, unseen: Set[ClusterId], slow: Set[EngineId]) -> _Look:
        """Read and decide; runs in a reader's thread and changes nothing here."""
        me, epoch = self._session.me, self._session.epoch
        seen = watch_leases.overview(conn, lease_s=self._ctx.settings.lease)
        mine = frozenset(h.cluster_id for h in seen.holdings if h.owner == me and h.epoch == epoch)
        # The only engine keeps what it cannot see and holds, as it always did.
        alone = not seen.live - {me}
        blind = set() if alone else unseen & mine
        late = seen.late | slow
        plan = {} if alone else share(self._watched(seen, blind), seen.live, late)
        theirs = {h.cluster_id for h in seen.holdings if plan.get(h.cluster_id, me) != me}
        free = [h for h in seen.holdings if h.free]
        return _Look(
            seen=seen,
            mine=mine,
            plan=plan,
            due=[h for h in free if h.cluster_id not in theirs],
            left=[h for h in free if h.cluster_id in theirs],
            surplus=sorted(mine & theirs, key=lambda i: (i not in blind, i)),
            blind=[i for i in sorted(blind) if me not in seen.blind.get(i, ())],
        )

    def _watched(self, seen: Overview, blind: Set[ClusterId]) -> Iterator[Watched]:
        me = frozenset({self._session.me})
        for holding in seen.holdings:
            known = seen.blind.get(holding.cluster_id, frozenset())
            yield Watched(
                cluster_id=holding.cluster_id,
                weight=holding.members + 1,
                owner=None if holding.free else holding.owner,
                blind=known | me if holding.cluster_id in blind else known,
            )

    def _overdue(self, look: _Look) -> Sequence[WatchLease]:
        """Return the watches that other engines should have taken by now."""
        now_s = self._ctx.clock.monotonic_s()
        known = self._free_since_s
        self._free_since_s = {h.cluster_id: known.get(h.cluster_id, now_s) for h in look.left}
        overdue = [h for h in look.left if self._patience_left_s(h) <= 0]
        for holding in overdue:
            end_s = now_s + SLOW_LEASES * self._ctx.settings.lease
            self._slow_until_s[look.plan[holding.cluster_id]] = end_s
        return overdue

    def _slow(self) -> Set[EngineId]:
        """Return the engines that did not take what was given to them."""
        now_s = self._ctx.clock.monotonic_s()
        self._slow_until_s = {e: s for e, s in self._slow_until_s.items() if s > now_s}
        return self._slow_until_s.keys() - {self._session.me}

    def _patience_left_s(self, holding: WatchLease) -> float:
        settings = self._ctx.settings
        waited_s = self._ctx.clock.monotonic_s() - self._free_since_s[holding.cluster_id]
        # When a lease runs out is known to all beforehand; that something was given up is not.
        if holding.lease_us:
            return min(PATIENCE_S, settings.lease * PATIENCE_SHARE) - waited_s
        return min(GIVEN_POLLS * settings.poll, settings.lease * GIVEN_SHARE) - waited_s

    def _wait_s(self, look: _Look) -> float:
        """Return the seconds until the next turn, at the latest when another engine's lease is over."""
        settings = self._ctx.settings
        others = (h for h in look.seen.holdings if not h.free and h.cluster_id not in look.mine)
        end_us = min((h.lease_us for h in others), default=None)
        waits_s = [settings.poll, *(self._patience_left_s(h) for h in look.left)]
        if end_us is not None:
            waits_s.append((end_us - look.seen.now_us) / 1e6 + SOON_S)
        if look.surplus:
            waits_s.append(settings.lease * PACE_SHARE)
        return max(SOON_S, min(waits_s))

    # --- doing ---------------------------------------------------------------------------------

    def _settle(
        self,
        conn: Connection,
        look: _Look,
        giving: Sequence[ClusterId],
        taking: Sequence[WatchLease],
    ) -> Sequence[ClusterId]:
        """Write partitions, give up and take watches in one transaction; return those taken."""
        me, epoch = self._session.me, self._session.epoch
        taken = watch_leases.take(conn, me, epoch, taking, lease_s=self._ctx.settings.lease)
        watch_leases.give(conn, me, epoch, giving)
        observer_partitions.record(conn, me, look.blind)
        return taken

    def _start(self, group: asyncio.TaskGroup, idents: Iterable[ClusterId]) -> None:
        for ident in sorted(idents):
            if ident in self._tasks and not self._tasks[ident].done():
                continue
            self._session.stuck.discard(ident)
            watch = ClusterWatcher(self._ctx, self._session, ident)
            self.watches[ident] = watch
            self._tasks[ident] = group.create_task(watch.run(), name=f"watch {ident}")

    def _stop(self, ident: ClusterId) -> None:
        """Ask a watch to stop; forget one that has."""
        self.watches.pop(ident, None)
        self._tasks[ident].cancel()
        if self._tasks[ident].done():
            del self._tasks[ident]
            self._session.stuck.discard(ident)

    def _moving(self, look: _Look) -> Sequence[ClusterId]:
        """The watches to give up now: a few that others should have, and all that we cannot see."""
        unseen = sum(i in look.blind for i in look.surplus)
        return look.surplus[: max(BATCH, ceil(len(look.mine) * BATCH_SHARE), unseen)]

    async def _stopped(self, moving: Sequence[ClusterId]) -> Sequence[ClusterId]:
        """Stop these watches; return those that stand still now."""
        for ident in moving:
            if ident in self._tasks:
                self._stop(ident)
        if tasks := {self._tasks[i] for i in moving if i in self._tasks}:
            await asyncio.wait(tasks, timeout=STOP_S)
        return [i for i in moving if not self._hangs(i)]

    def _hangs(self, ident: ClusterId) -> bool:
        """Whether a watch that was told to stop has not."""
        return ident in self._tasks and not self._tasks[ident].done()

    def _find_stuck(self) -> None:
        """Stop each watch that stands still, and renew its lease no more."""
        bound_s = max(STUCK_S, STUCK_LEASES * self._ctx.settings.lease)
        now_s = self._ctx.clock.monotonic_s()
        for ident, watch in tuple(self.watches.items()):
            if now_s - watch.turned_s > bound_s and self._hangs(ident):
                log.error("watch stands still", cluster=ident, for_s=round(now_s - watch.turned_s))
                self._session.stuck.add(ident)
                self._stop(ident)

    # --- telling -------------------------------------------------------------------------------

    def _tell(
        self, giving: Sequence[ClusterId], taking: Sequence[WatchLease], taken: Sequence[ClusterId]
    ) -> None:
        if giving:
            log.info("watches given up", count=len(giving))
        known = {h.cluster_id: h for h in taking}
        for ident in taken:
            self._ctx.metrics.taken.labels(_source(known[ident])).inc()
        if taken:
            log.info("watches taken", count=len(taken))

    async def _cover(self) -> None:
        """Measure how much of everything is watched by anybody."""
        now_s = self._ctx.clock.monotonic_s()
        if now_s - self._covered_s < COVERED_EVERY_S:
            return
        self._covered_s = now_s
        found = await self._ctx.store.read(coverage.measure)
        self._ctx.metrics.coverage.set(found.ratio)
        self._ctx.metrics.unwatched.set(found.longest_s)

    def _measure(self) -> None:
        """Set the gauges that only the watches know."""
        metrics = self._ctx.metrics
        metrics.watches.set(len(self.watches))
        counts = [w.beliefs.counts for w in self.watches.values()]
        for health in Health:
            metrics.nodes.labels(health.value).set(sum(c[health] for c in counts))
        held = [r for w in self.watches.values() for r in w.held]
        for reason in HoldReason:
            metrics.held.labels(reason.value).set(held.count(reason.value))
        metrics.never_seen.set(sum(w.never_seen for w in self.watches.values()))


def _source(holding: WatchLease) -> str:
    """Return where a watch was taken from."""
    if holding.owner:
        return "expired"
    return "given" if holding.epoch else "new"
