"""The watcher of one cluster: observations go to the tracker, changes to rows, and the planner is asked.

Detection never waits for recovery or for the database: observations are folded as they arrive, and
one loop (`_tend`) writes what changed and plans. While the database is away we go on observing and
stop acting; what was missed meanwhile is settled again afterwards (design/engines).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import structlog

from yaffle.core.health.staleness import voting
from yaffle.engine.admission import planning_pass
from yaffle.engine.admission.decision_writer import Inputs, StoredHold
from yaffle.engine.detection.checks import never_made, poll, usable
from yaffle.engine.detection.cluster_snapshot import (
    ClusterSnapshot,
    Stamp,
    load_cluster_snapshot,
    stamp,
)
from yaffle.engine.detection.health_batches import save_all
from yaffle.engine.detection.health_tracker import HealthTracker
from yaffle.engine.detection.host_attribution import HostAttribution
from yaffle.engine.detection.observer_check import ObserverCheck
from yaffle.engine.detection.subscriptions import Subscriptions
from yaffle.engine.runtime.context import Wakeup
from yaffle.errors import StaleEpoch, StoreUnavailable
from yaffle.integrations.batch_read import pool_of
from yaffle.model.health import Health, Observation
from yaffle.model.timing import JITTER, in_step

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.core.health.verdict import NodeMemory
    from yaffle.engine.runtime.context import EngineContext
    from yaffle.engine.runtime.session import Session
    from yaffle.model.ids import ClusterId, NodeId
    from yaffle.model.operations import Target
    from yaffle.model.policy import DetectionMode

log = structlog.get_logger()

RETRY_S = 1.0
SLICE = 100
"""Observations that are folded before others have their turn."""
RETRY_S_MAX = 8.0
"""The planner is asked again so often about nodes that are held, if nothing else happens."""
REST_S_MAX = 5.0
"""How long a watch whose nodes are all well, and stored as such, may go without looking at itself."""


class ClusterWatcher:
    """Watches one cluster for as long as it is ours and exists."""

    def __init__(self, ctx: EngineContext, session: Session, cluster_id: ClusterId) -> None:
        self.cluster_id = cluster_id
        self.beliefs = HealthTracker()
        self._ctx = ctx
        self._session = session
        self._wakeup = Wakeup()
        self._snapshot: ClusterSnapshot | None = None
        self._stamp: Stamp = ()
        self._told: dict[NodeId, StoredHold | None] = {}
        self._bearings = ObserverCheck(ctx)
        self._hosts = HostAttribution(ctx, cluster_id)
        self._streams = Subscriptions(ctx, cluster_id, self.take)
        self._unplanned = True
        self._wake_us: int | None = None
        """When the planner is asked again, whatever happens; None while nobody is unhealthy."""
        self._planned_us = 0
        self._retry_s = ctx.settings.poll
        self._store_lost = False
        self._stale = True
        self._era = 0
        """How many times we were blind."""
        self._resting = False
        """Whether we sleep for as long as no verdict changes."""
        self.turned_s = ctx.clock.monotonic_s()
        """When this watch last came round to saving and planning; one that stands still is given up."""
        self._blind = False
        """Whether nobody answered us by some road, references included, when many were judged."""

    async def run(self) -> None:
        """Watch until the cluster is deleted or no longer ours; a change of modes begins a new round."""
        tally = self._ctx.tally
        tally.join(self.cluster_id, self.beliefs)
        try:
            while await self._refresh():
                await self._round()
                # A new round asks at once: with the counts of the one before, `fall` looks would
                # lie closer together than is printed.
                self.beliefs.resettle()
        finally:
            tally.leave(self.cluster_id, self.beliefs, self._ctx.clock.now_us())
            self._streams.release(self._modes())

    def notice(self) -> None:
        """Read the cluster's rows again: they have changed, or may have."""
        self._stale = True
        self._wakeup.ring()

    def reconsider(self) -> None:
        """Plan again: a stop, a release or a recovery elsewhere may have changed what holds our nodes."""
        if self._wake_us is None:
            return
        soon_us = self._planned_us + int(self._ctx.settings.poll * 1e6)
        if soon_us < self._wake_us:
            self._wake_us = soon_us
            self._wakeup.ring()

    def blind(self, cause: str) -> None:
        """Resettle after observations were missed: counts begin again, grace and health stay."""
        self._era += 1
        self.beliefs.resettle()
        self._streams.forget(self._modes())
        log.info("resettling", cluster=self.cluster_id, cause=cause)
        self._unplanned = True
        self._wakeup.ring()

    @property
    def memories(self) -> Mapping[NodeId, NodeMemory]:
        """The health state of each node."""
        return self.beliefs.memories

    @property
    def seen(self) -> set[NodeId]:
        """The nodes of which anything has been observed."""
        return self.beliefs.seen

    @property
    def held(self) -> Sequence[str]:
        """The reasons for which nodes are held now."""
        return [hold.reason for hold in self._told.values() if hold is not None]

    @property
    def is_helpless(self) -> bool:
        """Whether another engine should watch: from here no node answers, or can be asked or healed."""
        if (self._blind and self._bearings.sure) or self._lacks():
            return True
        known = len(self.memories)
        if not self._modes() or not 0 < known == self.beliefs.counts[Health.UNKNOWN]:
            return False
        # What another engine found before us is not for us to repeat: we have to have looked.
        return all(m.settled for m in self.memories.values())

    def _lacks(self) -> str:
        """Return what this engine lacks to heal the cluster's nodes, which are all of one type."""
        target = next(iter(self._snapshot.targets.values()), None) if self._snapshot else None
        return self._ctx.lacks(target.profile_type) if target else ""

    @property
    def never_seen(self) -> int:
        """The number of watched nodes without a single observation."""
        return len(self.memories) - len(self.seen) if self._modes() else 0

    def _modes(self) -> tuple[DetectionMode, ...]:
        return voting(self._snapshot.policy.detection) if self._snapshot else ()

    async def _round(self) -> None:
        """Poll, persist and plan until the modes change or the cluster is gone."""
        async with asyncio.TaskGroup() as group:
            pollers = [
                group.create_task(
                    self._poll_unmade(mode) if self._streams.has(mode) else self._poll(mode),
                    name=f"poll {mode.key}",
                )
                for mode in self._modes()
            ]
            self._aim_streams()
            await self._tend()
            for poller in pollers:
                poller.cancel()
        self._streams.release(self._modes())

    # --- observing -----------------------------------------------------------------------------

    def _aim_streams(self) -> None:
        if self._snapshot is not None:
            self._streams.aim(self._snapshot, self._modes())

    async def _poll_unmade(self, mode: DetectionMode) -> None:
        """Report nodes that were never made as gone, for a stream does not check them."""
        while (snapshot := self._snapshot) is not None:
            unmade = [t for t in snapshot.targets.values() if not t.physical_id]
            self.take(never_made(self._ctx, unmade, mode))
            await self._ctx.clock.sleep(snapshot.policy.detection.interval_s)

    async def _poll(self, mode: DetectionMode) -> None:
        """Check all nodes by one mode every interval, with jitter, until cancelled."""
        ctx = self._ctx
        while (snapshot := self._snapshot) is not None:
            began_s = ctx.clock.monotonic_s()
            targets = tuple(snapshot.targets.values())
            interval_s = snapshot.policy.detection.interval_s
            era = self._era
            found = await poll(ctx, targets, mode, snapshot.policy.detection)
            if era != self._era:
                # Asked before we were blind: an answer from then is none of the fresh ones.
                found = ()
            for first in range(0, len(found), SLICE):
                self._fold(found[first : first + SLICE])
                # Ten clusters of a thousand at once would make the loop late, hence us blind.
                await asyncio.sleep(0)
            if mode.url is None and (pool := self._pool(targets)) is not None:
                pause_s = in_step(began_s, interval_s, pool)
            else:
                pause_s = interval_s * ctx.rng.uniform(1 - JITTER, 1 + JITTER)
            elapsed_s = ctx.clock.monotonic_s() - began_s
            await ctx.clock.sleep(max(pause_s - elapsed_s, interval_s * JITTER))

    def _pool(self, targets: Sequence[Target]) -> str | None:
        """Return in which pool this cluster's nodes are; None where they are in none."""
        if not targets:
            return None
        return pool_of(self._ctx.drivers.profiles.get(targets[0].profile_type), targets)

    def take(self, seen: Sequence[Observation]) -> None:
        """Take observations from a streaming detector; never blocks, never raises."""
        self._fold([one for one in map(usable, seen) if one is not None])

    def _fold(self, seen: Iterable[Observation]) -> None:
        snapshot = self._snapshot
        if snapshot is None:
            return
        known = [one for one in seen if one.node_id in self.memories]
        for (mode, outcome), count in Counter((o.mode, o.outcome) for o in known).items():
            counter = self._ctx.metrics.observations
            counter.labels(mode.partition(":")[2], outcome.value).inc(count)
        if self.beliefs.take(known, snapshot.policy.detection, self._ctx.clock.now_us()):
            self._unplanned = True
            self._wakeup.ring()
        elif self._resting and self.beliefs.is_unsaved:
            self._wakeup.ring()

    # --- tending -------------------------------------------------------------------------------

    async def _tend(self) -> None:
        """Persist health, plan, wait; returns when the snapshot needs a new round."""
        while True:
            self.turned_s = self._ctx.clock.monotonic_s()
            try:
                if not await self._refresh(tending=True):
                    return
                self._age()
                if self._snapshot is not None:
                    await save_all(
                        self._ctx, self._session, self._snapshot, self.beliefs, self._hosts
                    )
                await self._plan()
                self._found_store()
                wait_s = self._patience_s()
            except StaleEpoch as error:
                # The lease ended between reading and writing: whoever has the watch now saw it all.
                log.warning("watch lost", cluster=self.cluster_id, reason=str(error))
                return
            except StoreUnavailable as error:
                log.warning("cannot act", cluster=self.cluster_id, error=str(error))
                self._store_lost = self._unplanned = True
                wait_s = RETRY_S
            await self._wakeup.wait(wait_s)
            self._resting = False

    def _found_store(self) -> None:
        """Resettle once the database is back: what was observed while it was away is checked again."""
        if self._store_lost:
            self._store_lost = False
            self.blind("database outage")

    def _patience_s(self) -> float:
        snapshot, now_us = self._snapshot, self._ctx.clock.now_us()
        poll_s = self._ctx.settings.poll
        if self._wake_us is not None:
            return min(poll_s, max((self._wake_us - now_us) / 1e6, 0.01))
        busy = snapshot is None or snapshot.requests or snapshot.disturbed or self._unplanned
        if busy or self._stale or self._store_lost or self.beliefs.is_unsaved:
            return poll_s
        self._resting = True
        due_us = self.beliefs.due_us
        due_s = REST_S_MAX if due_us is None else (due_us - now_us) / 1e6
        return min(REST_S_MAX, max(due_s, poll_s))

    async def _refresh(self, *, tending: bool = False) -> bool:
        """Read the cluster again; False when this round (or, outside one, this watch) is over."""
        before = self._snapshot
        if tending and before is not None and not (self._stale or self._store_lost):
            return True
        snapshot = await self._load(patient=not tending)
        if snapshot is not None and snapshot is before:
            return True
        if snapshot is None:
            if not tending:
                self._snapshot = None
            return False
        if tending and before is not None and snapshot.policy.detection != before.policy.detection:
            self._stamp = ()  # the next round reads it again, and takes it over
            return False
        self._adopt(snapshot)
        if tending and (before is None or snapshot.targets != before.targets):
            self._aim_streams()
        return True

    async def _load(self, *, patient: bool) -> ClusterSnapshot | None:
        """Return the snapshot, None once it is gone or not ours; `patient` waits out an outage."""
        while True:
            # Before the read: what changes while it runs has to be read again.
            self._stale = False
            try:
                async with self._session.looks:
                    self._stamp, snapshot = await self._ctx.store.read(self._read_snapshot)
            except StaleEpoch:
                return None
            except StoreUnavailable as error:
                self._stale = True
                if not patient:
                    raise
                log.warning("cannot watch", cluster=self.cluster_id, error=str(error))
                await self._wakeup.wait(RETRY_S)
            else:
                return snapshot

    def _read_snapshot(self, conn: Connection) -> tuple[Stamp, ClusterSnapshot | None]:
        """Return the present snapshot itself while its stamp has not changed.

        Runs in a reader's thread and changes nothing here: an answer that comes too late is lost.
        """
        now = stamp(conn, self._session, self.cluster_id)
        if self._snapshot is None or now != self._stamp:
            return now, load_cluster_snapshot(
                self._ctx, conn, self._session, self.cluster_id, self._snapshot
            )
        return now, self._snapshot

    def _adopt(self, snapshot: ClusterSnapshot) -> None:
        """Take over rows that users or executors changed."""
        before = self._snapshot
        if before is not None and before.disturbed and not snapshot.disturbed:
            self._unplanned = True  # an action has ended: what was left to it is ours again
        if before is not None and before.policy != snapshot.policy:
            self._unplanned = True  # what is done has changed, though not what is asked
        self._snapshot = snapshot
        now_us = self._ctx.clock.now_us()
        if self.beliefs.adopt(snapshot.nodes, snapshot.changed, snapshot.policy.detection, now_us):
            self._unplanned = True
        for ident in self._told.keys() - snapshot.nodes.keys():
            del self._told[ident]
        self._unplanned |= snapshot.requests

    def _age(self) -> None:
        """Apply the time that has passed: observations grow stale, grace ends."""
        snapshot = self._snapshot
        if snapshot is not None and self.beliefs.age(
            snapshot.policy.detection, self._ctx.clock.now_us()
        ):
            self._unplanned = True

    def _note(self, *, blind: bool) -> None:
        self._blind = blind
        self._ctx.tally.note(self.cluster_id, blind=blind)

    async def _plan(self) -> None:
        """Run the planning transaction, unless there is nothing to decide."""
        snapshot = self._snapshot
        now_us = self._ctx.clock.now_us()
        due = self._wake_us is not None and now_us >= self._wake_us
        if snapshot is None or not (self.beliefs.sick or snapshot.requests):
            self._unplanned, self._wake_us, self._told = False, None, {}
            self._note(blind=False)
            return
        if not snapshot.requests:
            self._told = {i: t for i, t in self._told.items() if i in self.beliefs.sick}
        if not (self._unplanned or due or snapshot.disturbed):
            return
        if not self._session.may_act():
            return
        self._unplanned = False
        policy, memories = snapshot.policy, self.memories.values()
        sights = await self._bearings.take(
            memories, policy.reference_targets, policy.detection.interval_s
        )
        self._note(blind=sights.blind)
        hosts = await self._hosts.take(snapshot, self.beliefs)
        inputs = Inputs(
            cluster=snapshot.cluster,
            policy=snapshot.policy,
            policy_id=snapshot.policy_id,
            memories=dict(self.memories),
            known=snapshot.nodes,
            versions=snapshot.versions,
            sights=sights,
            lost=("database",) if self._store_lost else (),
            told=dict(self._told),
            hosts=hosts,
        )
        async with self._session.turns:
            outcome = await self._ctx.store.write(
                lambda conn: planning_pass.decide(self._ctx, self._session, conn, inputs)
            )
        self._told.update(outcome.told)
        # While anybody is unhealthy we ask again: what holds a node may give no sign when it ends.
        # But each pass reads the whole cluster, so those that find nothing new become rarer.
        idle = not (outcome.told or outcome.admitted or outcome.more or self._blind)
        poll_s = self._ctx.settings.poll
        self._retry_s = min(self._retry_s * 2, RETRY_S_MAX) if idle else poll_s
        self._planned_us = now_us
        retry_us = now_us + int(self._retry_s * 1e6)
        self._wake_us = min(retry_us, outcome.wake_us or retry_us)
        if outcome.more:
            self._unplanned = True
            # Perhaps because what we had read is no longer so.
            self.notice()
        if outcome.admitted:
            self._ctx.signals.actions.ring()
        if outcome.told:
            self._ctx.signals.outbox.ring()
