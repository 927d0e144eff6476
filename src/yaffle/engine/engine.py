"""The engine: one session after another, each owning every task that runs under its epoch.

A session ends when its lease is lost; all its tasks are cancelled and the next session starts from
the database, exactly as a successor on another machine would. So there is one code path for
restart, takeover and waking up after having been frozen, and it is walked every time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from yaffle.engine.caretaker import Caretaker
from yaffle.engine.executor import Executor
from yaffle.engine.postman import Postman
from yaffle.engine.session import LeaseLost, Session
from yaffle.engine.stamps import Stamps
from yaffle.engine.watch import Watch
from yaffle.engine.watchman import Watchman
from yaffle.errors import StoreUnavailable
from yaffle.model.health import Health
from yaffle.model.incident import HoldReason
from yaffle.store import leases

if TYPE_CHECKING:
    from yaffle.core.verdict import NodeMemory
    from yaffle.engine.kit import Kit
    from yaffle.model.ids import ClusterId, NodeId

log = structlog.get_logger()


class Engine:
    """Watches, decides and heals until it is cancelled."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit
        self.session: Session | None = None
        self.watches: dict[ClusterId, Watch] = {}
        kit.metrics.part_up.labels("engine").set_function(self._up)

    def _up(self) -> float:
        """1 while it may act."""
        return float(self.session is not None and self.session.may_act())

    async def run(self) -> None:
        """Live session after session; cancel to stop cleanly."""
        while True:
            session = await Session.begin(self._kit)
            self.session = session
            try:
                await self._live(session)
            except* LeaseLost as lost:
                log.warning("session lost", reason=str(lost.exceptions[0]))
            finally:
                self.session = None
                self.watches = {}
                await session.end()

    def memory_of(self, node_id: NodeId) -> NodeMemory | None:
        """Return what our watch remembers of a node; None where nobody watches it here."""
        for watch in self.watches.values():
            if node_id in watch.memories:
                return watch.memories[node_id]
        return None

    def blind(self, cause: str) -> None:
        """Whoever notices that something was missed says so here."""
        for watch in self.watches.values():
            watch.blind(cause)

    async def _live(self, session: Session) -> None:
        kit = self._kit
        async with asyncio.TaskGroup() as group:
            group.create_task(session.keep(), name="lease")
            group.create_task(Executor(kit, session).run(), name="executor")
            group.create_task(Postman(kit, session).run(), name="postman")
            group.create_task(Caretaker(kit, session).run(), name="caretaker")
            group.create_task(Watchman(kit, self.blind).run(), name="watchman")
            group.create_task(self._watch_all(session), name="watches")
            group.create_task(Stamps(kit, session, lambda: self.watches).run(), name="stamps")

    async def _watch_all(self, session: Session) -> None:
        """Claim clusters and keep one watch for each that is ours."""
        kit = self._kit
        async with asyncio.TaskGroup() as group:
            tasks: dict[ClusterId, asyncio.Task[None]] = {}
            while True:
                try:
                    mine = await kit.store.write(
                        lambda conn: leases.claim_watches(
                            conn, session.me, session.epoch, lease_s=kit.settings.lease
                        )
                    )
                except StoreUnavailable as error:
                    log.warning("cannot claim watches", error=str(error))
                    mine = list(self.watches)
                for ident in mine:
                    if ident not in tasks or tasks[ident].done():
                        watch = Watch(kit, session, ident)
                        self.watches[ident] = watch
                        tasks[ident] = group.create_task(watch.run(), name=f"watch {ident}")
                for ident in self.watches.keys() - set(mine):
                    del self.watches[ident]
                self._measure()
                await kit.signals.watches.wait(kit.settings.poll)

    def _measure(self) -> None:
        """Set the gauges that only the watches know."""
        metrics = self._kit.metrics
        memories = [m for w in self.watches.values() for m in w.memories.values()]
        for health in Health:
            metrics.nodes.labels(health.value).set(sum(m.health is health for m in memories))
        held = [r for w in self.watches.values() for r in w.held]
        for reason in HoldReason:
            metrics.held.labels(reason.value).set(held.count(reason.value))
        metrics.never_seen.set(sum(w.never_seen for w in self.watches.values()))
