"""A metrics collector for event listeners: messages received, and what they led to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily

from yaffle.ports import SupportsListenerStatus

NAME: Final = "yaffle_messages_heard"
TEXT: Final = "Messages that a detection mode heard, by what came of them."


class ListenerMetrics:
    """A collector of prometheus_client; the counts are the detectors' own."""

    _labelnames: Final = ("mode", "result")
    """As the library calls it: the reference of metrics reads it."""

    def __init__(self) -> None:
        self._detectors: Mapping[str, object] = {}

    def follow(self, detectors: Mapping[str, object]) -> None:
        """Tell of these from now on, by their mode."""
        self._detectors = detectors

    def collect(self) -> Iterable[CounterMetricFamily]:
        """Return the one family, with a number for each word that a detector knows."""
        family = CounterMetricFamily(NAME, TEXT, labels=self._labelnames)
        for mode, detector in self._eared():
            for result, count in sorted(detector.counts.items()):
                family.add_metric((mode, result), count)
        return (family,)

    def _eared(self) -> Iterator[tuple[str, SupportsListenerStatus]]:
        for mode, detector in sorted(self._detectors.items()):
            if isinstance(detector, SupportsListenerStatus):
                yield mode, detector
