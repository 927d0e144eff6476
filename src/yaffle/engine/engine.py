"""The engine: one session after another, each owning every task that runs under its epoch.

A session ends when its lease is lost; all its tasks are cancelled and the next session starts from
the database, exactly as a successor on another machine would. So there is one code path for
restart, takeover and waking up after having been frozen, and it is walked every time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from yaffle.engine.detection.host_watcher import HostWatcher
from yaffle.engine.execution.executor import Executor
from yaffle.engine.housekeeping import Housekeeper
from yaffle.engine.notifications.dispatcher import OutboxDispatcher
from yaffle.engine.notifications.host_alerts import HostAlerter
from yaffle.engine.ownership.change_tokens import ChangeTokens
from yaffle.engine.ownership.watch_assignment import WatchAssignment
from yaffle.engine.runtime.loop_monitor import LoopMonitor
from yaffle.engine.runtime.session import LeaseLost, Session
from yaffle.errors import leaves
from yaffle.integrations.cancellation import cancellable

if TYPE_CHECKING:
    from yaffle.core.health.verdict import NodeMemory
    from yaffle.engine.cluster_watcher import ClusterWatcher
    from yaffle.engine.runtime.context import EngineContext
    from yaffle.model.ids import ClusterId, NodeId

log = structlog.get_logger()


class Engine:
    """Watches, decides and heals until it is cancelled."""

    def __init__(self, ctx: EngineContext) -> None:
        self._ctx = ctx
        self.session: Session | None = None
        self.watches: dict[ClusterId, ClusterWatcher] = {}
        ctx.metrics.part_up.labels("engine").set_function(self._up)

    def _up(self) -> float:
        """1 while it may act."""
        return float(self.session is not None and self.session.may_act())

    async def run(self) -> None:
        """Live session after session; cancel to stop cleanly."""
        while True:
            session = await Session.begin(self._ctx)
            self.session = session
            try:
                await cancellable(self._live(session))
            except* LeaseLost as lost:
                self._ctx.metrics.sessions_lost.inc()
                log.warning("session lost", reason=str(next(leaves(lost))))
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
        ctx = self._ctx
        async with asyncio.TaskGroup() as group:
            group.create_task(session.keep(), name="lease")
            group.create_task(Executor(ctx, session).run(), name="executor")
            group.create_task(OutboxDispatcher(ctx, session).run(), name="postman")
            if ctx.drivers.alerts:
                group.create_task(HostAlerter(ctx, session).run(), name="alerter")
            for name, monitor in ctx.drivers.host_monitors.items():
                watcher = HostWatcher(ctx, session, name, monitor)
                group.create_task(watcher.run(), name=f"hosts {name}")
            group.create_task(Housekeeper(ctx, session).run(), name="caretaker")
            group.create_task(LoopMonitor(ctx, self.blind).run(), name="watchman")
            group.create_task(WatchAssignment(ctx, session, self.watches).run(), name="watches")
            group.create_task(ChangeTokens(ctx, session, lambda: self.watches).run(), name="stamps")
