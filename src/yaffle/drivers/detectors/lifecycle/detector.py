"""LIFECYCLE_EVENTS: told by the backend when something happens, and certain of the rest (seed 1).

An event never votes: it wakes a reading, whose answer counts at once (design/failure#health).
Listening may miss things, so that each node is also read when its watch begins, after each gap, and
every sweep; and where we hear nothing we ask. All that runs is owned by one task, which begins with
the first watch and ends with the last, or with the loop.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, ClassVar, Final

import structlog

from yaffle.drivers.detectors.lifecycle.channel_health import ChannelHealth
from yaffle.drivers.detectors.lifecycle.node_index import Roster
from yaffle.drivers.detectors.lifecycle.read_scheduler import Waker
from yaffle.drivers.detectors.lifecycle.reading import Reader
from yaffle.drivers.detectors.lifecycle.settings import LifecycleSettings
from yaffle.drivers.detectors.lifecycle.watch import Watch
from yaffle.integrations.driver_settings import Section
from yaffle.model.health import Observation
from yaffle.model.operations import Target
from yaffle.model.policy import DetectionMode, ModeType
from yaffle.ports.detector import ListenerStatus

if TYPE_CHECKING:
    from yaffle.drivers.detectors.lifecycle.messages import Heard
    from yaffle.drivers.detectors.lifecycle.source import Source
    from yaffle.ports.context import DriverContext
    from yaffle.ports.detector import (
        Sink,
        StreamingDetector,
        SupportsListenerStatus,
        SupportsModeValidation,
        SupportsReset,
    )

log = structlog.get_logger(__name__)

AGAIN_S: Final = 1.0
"""After a bug of ours has ended everything; until then the nodes grow unknown, which holds them."""


class LifecycleDetector:
    """Reads a node when its backend says that something happened, and vouches for it meanwhile."""

    type: ClassVar[str] = ModeType.LIFECYCLE_EVENTS.value

    def __init__(self, context: DriverContext) -> None:
        section = Section(context.section or f"drivers.{self.type}", context.settings)
        self._settings = LifecycleSettings.read(section)
        self._clock = context.clock
        self._rng = Random()
        self._reader = Reader(context)
        self._watches: dict[str, Watch] = {}
        self._roster = Roster()
        self._counts: Counter[str] = Counter()
        self._owner: asyncio.Task[None] | None = None
        self._group: asyncio.TaskGroup | None = None
        """The owner's, while it takes tasks."""
        self._channels = ChannelHealth(
            (source.name for source in self._settings.sources), self._ring
        )
        self._waker = Waker(self._clock, self._reader)

    @property
    def lacking(self) -> str:
        """Return what it cannot work without; empty where all is there."""
        if self._settings.sources:
            return ""
        return f"no broker to listen to is configured (drivers.{self.type}.sources)"

    def misfit(self, mode: DetectionMode) -> str:
        """See `ports.SupportsModeValidation`: without a source no watch would work, so none is bound."""
        return self.lacking

    @property
    def listening(self) -> bool:
        """Whether all brokers are heard."""
        return self._channels.listening

    @property
    def counts(self) -> Mapping[str, int]:
        """Return how many messages came to what, since the start."""
        return self._counts

    def listeners(self) -> Sequence[ListenerStatus]:
        """See `ports.SupportsListenerStatus`: every source."""
        if self._owner is not None:
            return self._channels.told()
        idle = "not connected: nothing is watched by events here"
        return [ListenerStatus(name=source.name, detail=idle) for source in self._settings.sources]

    @property
    def vouched(self) -> int:
        """Return for how many nodes silence is answer enough now."""
        return sum(
            watch.vouched(n) for watch in self._watches.values() for n in watch.nodes.values()
        )

    @property
    def behind(self) -> int:
        """Return how many nodes were not read since the last gap in what is heard."""
        return sum(
            not watch.current(n) for watch in self._watches.values() for n in watch.nodes.values()
        )

    # --- the port ------------------------------------------------------------------------------

    def watch(
        self,
        watch_id: str,
        targets: Sequence[Target],
        mode: DetectionMode,
        *,
        interval_s: float,
        sink: Sink,
    ) -> None:
        """See `ports.StreamingDetector`."""
        watch = self._watches.get(watch_id)
        if watch is None:
            watch = self._watches[watch_id] = Watch(
                watch_id,
                clock=self._clock,
                reader=self._reader,
                channels=self._channels,
                rng=self._rng,
            )
        self._roster.remove(watch.nodes.values())
        watch.aim(targets, mode, interval_s, sink)
        self._roster.add(watch.nodes.values())
        if self._owner is None or self._owner.done():
            self._own()
        elif self._group is not None and watch.task is None:
            watch.task = self._group.create_task(watch.run(), name=f"watch {watch_id}")

    def unwatch(self, watch_id: str) -> None:
        """See `ports.StreamingDetector`."""
        watch = self._watches.pop(watch_id, None)
        if watch is None:
            return
        watch.end()
        self._roster.remove(watch.nodes.values())
        self._waker.drop(tuple(watch.nodes.values()))
        if not self._watches and self._owner is not None:
            self._owner.cancel()
            self._owner = self._group = None

    def forget(self, watch_id: str) -> None:
        """See `ports.SupportsReset`."""
        watch = self._watches.get(watch_id)
        if watch is not None:
            watch.forget()

    async def check(
        self, targets: Sequence[Target], mode: DetectionMode, *, deadline_s: float
    ) -> Sequence[Observation]:
        """See `ports.Detector`: asked now, and who wanted it so."""
        found = await self._reader.read(targets, deadline_s=deadline_s)
        return [
            one.as_observation(target, mode, None)
            for target, one in zip(targets, found, strict=True)
        ]

    # --- what runs -----------------------------------------------------------------------------

    def _own(self, *, after_s: float = 0.0) -> None:
        self._group = None
        loop = asyncio.get_running_loop()
        self._owner = loop.create_task(self._run(after_s), name="lifecycle events")
        self._owner.add_done_callback(self._ended)

    def _ended(self, owner: asyncio.Task[None]) -> None:
        """Tell a bug of ours and begin anew: who is watched must not be forgotten because of it."""
        if owner.cancelled() or owner is not self._owner:
            return
        log.error("lifecycle events ended, and begin anew", exc_info=owner.exception())
        self._own(after_s=AGAIN_S)

    async def _run(self, after_s: float) -> None:
        if after_s:
            await self._clock.sleep(after_s)
        async with asyncio.TaskGroup() as group:
            self._group = group
            for source in self._sources():
                group.create_task(source.run(), name=f"events of {source.name}")
            group.create_task(self._waker.run(), name="wake")
            for ident, watch in self._watches.items():
                watch.task = group.create_task(watch.run(), name=f"watch {ident}")

    def _sources(self) -> list[Source]:
        if self.lacking:
            log.warning("nothing is heard, everything is asked for", reason=self.lacking)
            return []
        # Not before it is needed: pamqp is of an extra, and takes its time.
        from yaffle.drivers.detectors.lifecycle.source import Source  # noqa: PLC0415

        return [
            Source(
                settings,
                clock=self._clock,
                channels=self._channels,
                rng=self._rng,
                hear=self._hear,
                counts=self._counts,
            )
            for settings in self._settings.sources
        ]

    def _hear(self, heard: Heard) -> None:
        """Wake whom the event is about; never waits."""
        nobody = True
        for node in self._roster.about(heard):
            nobody = False
            self._waker.wake(node, heard)
        self._counts["of_nobody" if nobody else "woke"] += 1

    def _ring(self) -> None:
        for watch in self._watches.values():
            watch.ring()


if TYPE_CHECKING:
    _conforms: type[StreamingDetector] = LifecycleDetector
    _forgets: type[SupportsReset] = LifecycleDetector
    _chooses: type[SupportsModeValidation] = LifecycleDetector
    _tells: type[SupportsListenerStatus] = LifecycleDetector
