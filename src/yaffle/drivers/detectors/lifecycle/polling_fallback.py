"""Listening where there is nothing to listen to: everything is asked for, and who wanted it so.

The detector itself refuses to be bound without a broker, for who names it wants to be told at once.
Whoever only looks at a cloud has no broker's password, and yet must know a wish from a failure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from yaffle.drivers.detectors.lifecycle.detector import LifecycleDetector

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaffle.model.health import Observation
    from yaffle.model.operations import Target
    from yaffle.model.policy import DetectionMode
    from yaffle.ports.context import DriverContext
    from yaffle.ports.detector import Sink, StreamingDetector, SupportsReset


class Unheard:
    """As `LifecycleDetector` while no broker is heard; there is none, and none is missed."""

    type: ClassVar[str] = LifecycleDetector.type

    def __init__(self, context: DriverContext) -> None:
        self._asking = LifecycleDetector(context)

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
        self._asking.watch(watch_id, targets, mode, interval_s=interval_s, sink=sink)

    def unwatch(self, watch_id: str) -> None:
        """See `ports.StreamingDetector`."""
        self._asking.unwatch(watch_id)

    def forget(self, watch_id: str) -> None:
        """See `ports.SupportsReset`."""
        self._asking.forget(watch_id)

    async def check(
        self, targets: Sequence[Target], mode: DetectionMode, *, deadline_s: float
    ) -> Sequence[Observation]:
        """See `ports.Detector`."""
        return await self._asking.check(targets, mode, deadline_s=deadline_s)


if TYPE_CHECKING:
    _conforms: type[StreamingDetector] = Unheard
    _forgets: type[SupportsReset] = Unheard
