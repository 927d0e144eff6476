"""Detectors ask one question of many nodes; they never judge and never act."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from yaffle.model.health import Observation
from yaffle.model.ids import NodeId
from yaffle.model.operations import Target
from yaffle.model.policy import DetectionMode, UrlOptions

Sink = Callable[[Sequence[Observation]], None]
"""Takes a batch of observations; never blocks, never raises."""

Whole = Callable[[], Awaitable[Sequence[Target]]]
"""Returns all watched nodes of a cluster, those that were never made included; empty: not known."""


class Detector(Protocol):
    """Ask one question about each node and answer in bounded time."""

    type: ClassVar[str]
    """The detection mode's name in policy documents."""

    async def check(
        self,
        targets: Sequence[Target],
        mode: DetectionMode,
        *,
        deadline_s: float,
    ) -> Sequence[Observation]:
        """Return one observation per target, in the order of `targets`.

        What could not be asked within the deadline is `unknown`. A slow target must not delay the
        others: ask concurrently, bounded.
        """
        ...


@runtime_checkable
class SupportsModeValidation(Protocol):
    """Optional capability of a detector: it can ask some modes here and others not."""

    def misfit(self, mode: DetectionMode) -> str:
        """Say why `mode` can never be asked here; empty when it can. Nothing is asked for it."""
        ...


@runtime_checkable
class SupportsClusterCheck(Protocol):
    """Optional capability of a detector: an answer about a node may rest on all the others.

    Before it acts the engine asks about one node, and in another process than the one that watches.
    """

    async def check_among(
        self,
        targets: Sequence[Target],
        mode: DetectionMode,
        *,
        whole: Whole,
        deadline_s: float,
    ) -> Sequence[Observation]:
        """As `Detector.check`; `whole` returns the cluster that `targets` are of, or nothing."""
        ...


@runtime_checkable
class StreamingDetector(Protocol):
    """A detector that keeps its own pace and pushes what it sees; `check` still works on demand."""

    type: ClassVar[str]

    def watch(
        self,
        watch_id: str,
        targets: Sequence[Target],
        mode: DetectionMode,
        *,
        interval_s: float,
        sink: Sink,
    ) -> None:
        """Start asking `targets` every `interval_s` (jittered), or replace that watch's targets."""
        ...

    def unwatch(self, watch_id: str) -> None:
        """Stop; idempotent. No observation reaches the sink afterwards."""
        ...

    async def check(
        self,
        targets: Sequence[Target],
        mode: DetectionMode,
        *,
        deadline_s: float,
    ) -> Sequence[Observation]:
        """As `Detector.check`."""
        ...


@runtime_checkable
class SupportsReset(Protocol):
    """Optional capability of a streaming detector: it vouches for what it has not asked lately."""

    def forget(self, watch_id: str) -> None:
        """We may have missed something: ask about each node again before vouching for it."""
        ...


@runtime_checkable
class SupportsEventHints(Protocol):
    """Optional capability of a polled detector: it is told when to look before the next poll.

    Polls go on as ever, so that nothing depends on what is heard.
    """

    def listen(
        self,
        watch_id: str,
        targets: Sequence[Target],
        mode: DetectionMode,
        *,
        interval_s: float,
        sink: Sink,
    ) -> None:
        """Push what an early look at some of `targets` says, or replace that watch's targets."""
        ...

    def ignore(self, watch_id: str) -> None:
        """Stop; idempotent. No observation reaches the sink afterwards."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerStatus:
    """One place where a detector listens, as a person wants to know it."""

    name: str
    """`edge at 127.0.0.1:5140`"""
    detail: str
    fault: str = ""
    """Why nothing can be heard there, or seems to be; empty where all is well."""
    advice: str = ""


@runtime_checkable
class SupportsListenerStatus(Protocol):
    """Optional capability of a detector: it can say how well it hears."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Return how many messages came to what since the start, by word (`[a-z0-9_]+`, closed)."""
        ...

    def listeners(self) -> Sequence[ListenerStatus]:
        """Return every place where it listens now."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlTarget:
    """One URL to ask on behalf of one node."""

    node_id: NodeId
    url: str
    """With all expansions done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlResult:
    """Result of the prober for one URL; `code` is a row of `core.health.check_codes.OUTCOMES`."""

    node_id: NodeId
    code: str
    detail: str
    at_us: int
    took_us: int


class UrlProber(Protocol):
    """The prober process, seen from the engine (design/engines)."""

    def schedule(
        self,
        watch_id: str,
        targets: Sequence[UrlTarget],
        options: UrlOptions,
        *,
        interval_s: float,
        sink: Callable[[Sequence[UrlResult]], None],
    ) -> None:
        """Ask each target every `interval_s`, spread over the interval; replaces the watch's targets.

        While the prober is away, nothing is reported: the watcher notices by freshness. The
        schedule is re-sent by itself when the prober is back.
        """
        ...

    def unschedule(self, watch_id: str) -> None:
        """Stop; idempotent."""
        ...

    async def probe(
        self, targets: Sequence[UrlTarget], options: UrlOptions, *, deadline_s: float
    ) -> Sequence[UrlResult]:
        """Ask once, now, in the order given; raises ProberUnavailable when the prober is away."""
        ...
