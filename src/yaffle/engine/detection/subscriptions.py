"""Subscribes to detectors that push, and aims them at the nodes of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle.ports import StreamingDetector, SupportsEventHints, SupportsReset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaffle.engine.detection.cluster_snapshot import ClusterSnapshot
    from yaffle.engine.runtime.context import EngineContext
    from yaffle.model.ids import ClusterId
    from yaffle.model.policy import DetectionMode
    from yaffle.ports import Sink


class Subscriptions:
    """Begun with a round of the watch, aimed at its targets, released with it."""

    def __init__(self, ctx: EngineContext, cluster_id: ClusterId, sink: Sink) -> None:
        self._ctx, self._cluster_id, self._sink = ctx, cluster_id, sink

    def has(self, mode: DetectionMode) -> bool:
        """Whether the mode's detector keeps its own pace, so that nobody polls it."""
        return isinstance(self._detector(mode), StreamingDetector)

    def aim(self, snapshot: ClusterSnapshot, modes: Sequence[DetectionMode]) -> None:
        """Begin, or replace the targets; nodes that were never made are not among them."""
        targets = tuple(t for t in snapshot.targets.values() if t.physical_id)
        interval_s = snapshot.policy.detection.interval_s
        for mode in modes:
            detector, ident = self._detector(mode), self._ident(mode)
            if isinstance(detector, StreamingDetector):
                detector.watch(ident, targets, mode, interval_s=interval_s, sink=self._sink)
            elif isinstance(detector, SupportsEventHints):
                detector.listen(ident, targets, mode, interval_s=interval_s, sink=self._sink)

    def release(self, modes: Sequence[DetectionMode]) -> None:
        """End; idempotent."""
        for mode in modes:
            detector = self._detector(mode)
            if isinstance(detector, StreamingDetector):
                detector.unwatch(self._ident(mode))
            elif isinstance(detector, SupportsEventHints):
                detector.ignore(self._ident(mode))

    def forget(self, modes: Sequence[DetectionMode]) -> None:
        """We may have missed something: what is remembered is asked again."""
        for mode in modes:
            detector = self._detector(mode)
            if isinstance(detector, SupportsReset):
                detector.forget(self._ident(mode))

    def _detector(self, mode: DetectionMode) -> object:
        return self._ctx.drivers.detectors.get(mode.type)

    def _ident(self, mode: DetectionMode) -> str:
        return f"{self._cluster_id}/{mode.key}"
