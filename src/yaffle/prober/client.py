"""The engine's side of the prober: keeps the child alive, in step and honest.

What should be asked is state, not a stream of commands: a watch that changed is marked, and whatever
child is there is sent the present schedule. A new child gets all of them. Coverage that was
interrupted is told through `on_blind`, so that the engine asks for fresh observations before it
believes anything (design/failure#health, resettle).
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import structlog

from yaffle.core.addresses import AddressRules
from yaffle.errors import ProberUnavailable
from yaffle.integrations import child_process
from yaffle.integrations.cancellation import cancellable
from yaffle.integrations.child_process import ChildLost, Pings
from yaffle.ports.clock import SteeredClock
from yaffle.ports.detector import UrlProber, UrlResult, UrlTarget
from yaffle.prober import wire

if TYPE_CHECKING:
    from yaffle.model.policy import UrlOptions
    from yaffle.ports.clock import Clock

Sink = Callable[[Sequence[UrlResult]], None]

PING_S: Final = 1.0
SILENT_PINGS_MAX: Final = 5
"""Pings in a row without an answer before the child is taken for hung."""
PROBES_MAX: Final = 1_000
GRACE_S: Final = 2.0
"""For an answer to come over the pipe after its deadline."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProberStats:
    """The child's last report of itself; counters since its start, except `restarts`."""

    up: bool = False
    pid: int = 0
    restarts: int = 0
    checks: int = 0
    checks_per_s: float = 0.0
    in_flight: int = 0
    waiting: int = 0
    lost_s: float = 0.0
    lag_s_max: float = 0.0
    dropped: int = 0
    rss_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watch:
    ids: dict[UrlTarget, int]
    """An id lives as long as its target, options and interval do, over replacements of the watch."""
    options: UrlOptions
    interval_s: float
    sink: Sink


class ProberClient:
    """Implements `ports.UrlProber`. Everything runs inside `run()`; call the rest on its loop."""

    def __init__(
        self,
        *,
        clock: Clock,
        on_blind: Callable[[str], None],
        rules: AddressRules | None = None,
        ca_file: str = "",
        sockets_max: int = 2_000,
        ping_s: float = PING_S,
    ) -> None:
        """`ca_file` is trusted beside the system's authorities; `ping_s` is how often we look."""
        rules = rules if rules is not None else AddressRules()
        self._clock = clock
        self._on_blind = on_blind
        self._configure = wire.Configure(
            [str(network) for network in rules.allow],
            [str(network) for network in rules.deny],
            ca_file,
            sockets_max,
        )
        self._numbers = itertools.count(1)
        self._watches: dict[str, _Watch] = {}
        self._by_id: dict[int, tuple[_Watch, UrlTarget]] = {}
        self._changed: dict[str, None] = {}
        self._probes: dict[int, asyncio.Future[list[wire.Seen]]] = {}
        self._wake = asyncio.Event()
        self._writer: asyncio.StreamWriter | None = None
        self._pings = Pings(silent_max=SILENT_PINGS_MAX, pace_s=ping_s)
        self._pid = 0
        self._restarts = 0
        self._pong: wire.Pong | None = None
        self._checks_per_s = 0.0
        self._pong_at_s = 0.0

    # --- what the engine asks ---

    @property
    def stats(self) -> ProberStats:
        """Return the child's state; never waits."""
        pong = self._pong
        if self._writer is None or pong is None:
            return ProberStats(restarts=self._restarts)
        return ProberStats(
            up=True,
            pid=self._pid,
            restarts=self._restarts,
            checks=pong.checks,
            checks_per_s=self._checks_per_s,
            in_flight=pong.in_flight,
            waiting=pong.waiting,
            lost_s=pong.lost_s,
            lag_s_max=pong.lag_s_max,
            dropped=pong.dropped,
            rss_bytes=pong.rss_bytes,
        )

    def schedule(
        self,
        watch_id: str,
        targets: Sequence[UrlTarget],
        options: UrlOptions,
        *,
        interval_s: float,
        sink: Sink,
    ) -> None:
        """See `ports.UrlProber`."""
        old = self._forget(watch_id)
        same = old is not None and (old.options, old.interval_s) == (options, interval_s)
        ids = old.ids if old is not None and same else {}
        watch = _Watch(
            ids={target: ids.get(target) or next(self._numbers) for target in targets},
            options=options,
            interval_s=interval_s,
            sink=sink,
        )
        self._watches[watch_id] = watch
        self._by_id.update({id_: (watch, target) for target, id_ in watch.ids.items()})
        self._mark(watch_id)

    def unschedule(self, watch_id: str) -> None:
        """See `ports.UrlProber`."""
        if self._forget(watch_id):
            self._mark(watch_id)

    async def probe(
        self, targets: Sequence[UrlTarget], options: UrlOptions, *, deadline_s: float
    ) -> Sequence[UrlResult]:
        """See `ports.UrlProber`."""
        writer = self._writer
        if writer is None:
            raise ProberUnavailable("the prober is away and is being restarted; ask again later")
        if len(self._probes) >= PROBES_MAX:
            raise ProberUnavailable(f"{PROBES_MAX} probes are under way already; ask again later")
        request_id = next(self._numbers)
        answer: asyncio.Future[list[wire.Seen]] = asyncio.get_running_loop().create_future()
        self._probes[request_id] = answer
        try:
            writer.write(
                wire.frame(
                    wire.Probe(
                        request_id,
                        _options(options),
                        max(0.0, deadline_s),
                        _asks(enumerate(targets)),
                    )
                )
            )
            async with asyncio.timeout(deadline_s + GRACE_S):
                seen = await answer
        except TimeoutError:
            raise ProberUnavailable("the prober did not answer in time") from None
        finally:
            del self._probes[request_id]
        apart_us = self._apart_us()
        return [
            _result(targets[one.id], one, apart_us) for one in sorted(seen, key=lambda one: one.id)
        ]

    def _forget(self, watch_id: str) -> _Watch | None:
        watch = self._watches.pop(watch_id, None)
        if watch is not None:
            for id_ in watch.ids.values():
                del self._by_id[id_]
        return watch

    def _mark(self, watch_id: str) -> None:
        self._changed[watch_id] = None
        self._wake.set()

    # --- keeping a child ---

    async def run(self) -> None:
        """Supervise the child until cancelled; no process is left behind."""
        await child_process.supervise(self._one_child, self._lost, self._clock)

    def _lost(self, why: str, deaths: int) -> None:
        self._restarts += 1
        log.warning("prober lost", why=why, deaths=deaths)
        self._on_blind(why)

    async def _one_child(self) -> tuple[str, int]:
        """Start a child and stay with it to its end; return why it ended, and what it answered."""
        self._pings.answered = 0
        try:
            async with child_process.started("yaffle.prober") as child:
                self._pid = child.process.pid
                try:
                    return await self._attend(child.reader, child.writer), self._pings.answered
                finally:
                    self._child_gone()
        except ChildLost as lost:
            return str(lost), 0

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
        self._pong = None
        writer.write(wire.frame(self._configure))
        self._changed = dict.fromkeys(self._watches)
        self._wake.set()
        self._writer = writer
        why = ""
        try:
            await cancellable(self._talk(reader, writer))
        except* ChildLost as errors:
            why = str(errors.exceptions[0])
        except* OSError:
            why = "the prober died"
        return why

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._read(reader))
            tasks.create_task(self._send_changes(writer))
            tasks.create_task(
                self._pings.run(
                    "the prober",
                    lambda number: writer.write(wire.frame(wire.Ping(number))),
                    self._clock,
                )
            )

    def _child_gone(self) -> None:
        self._writer = None
        for answer in self._probes.values():
            if not answer.done():
                answer.set_exception(ProberUnavailable("the prober died before it answered"))

    async def _send_changes(self, writer: asyncio.StreamWriter) -> None:
        while True:
            # Set whenever something is marked; the group's cancellation bounds this wait.
            await self._wake.wait()
            self._wake.clear()
            changed, self._changed = self._changed, {}
            for watch_id in changed:
                watch = self._watches.get(watch_id)
                if watch is None:
                    writer.write(wire.frame(wire.Unschedule(watch_id)))
                else:
                    writer.write(wire.frame(_schedule(watch_id, watch)))
                await writer.drain()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        frames = wire.Frames()
        while True:
            data = await reader.read(256 * 1024)
            if not data:
                raise ChildLost("the prober died")
            for body in frames.feed(data):
                self._hear(wire.replies.decode(body))

    def _hear(self, reply: wire.Reply) -> None:
        match reply:
            case wire.Results():
                self._deliver(reply.seen)
            case wire.Answer():
                answer = self._probes.get(reply.request_id)
                if answer is not None and not answer.done():
                    answer.set_result(reply.seen)
            case wire.Late():
                self._on_blind(reply.why)
            case wire.Pong():
                self._hear_pong(reply)

    def _deliver(self, batch: list[wire.Seen]) -> None:
        by_watch: dict[int, tuple[_Watch, list[UrlResult]]] = {}
        apart_us = self._apart_us()
        for seen in batch:
            watch, target = self._by_id.get(seen.id, (None, None))
            if watch is not None and target is not None:
                _, results = by_watch.setdefault(id(watch), (watch, []))
                results.append(_result(target, seen, apart_us))
        for watch, results in by_watch.values():
            watch.sink(results)

    def _apart_us(self) -> int:
        """Return how far our wall clock is ahead of the child's, by which it dates what it saw (µs)."""
        return self._clock.offset_us() if isinstance(self._clock, SteeredClock) else 0

    def _hear_pong(self, pong: wire.Pong) -> None:
        self._pings.heard()
        now_s = self._clock.monotonic_s()
        if self._pong is not None and now_s > self._pong_at_s:
            self._checks_per_s = (pong.checks - self._pong.checks) / (now_s - self._pong_at_s)
        self._pong, self._pong_at_s = pong, now_s


def _options(options: UrlOptions) -> wire.Options:
    return wire.Options(
        options.ssl_verify,
        options.healthy_response,
        options.retry_limit,
        options.retry_interval_s,
        options.timeout_s,
        options.keep_alive,
    )


def _asks(targets: Iterable[tuple[int, UrlTarget]]) -> list[wire.Ask]:
    return [wire.Ask(id_, target.node_id, target.url) for id_, target in targets]


def _schedule(watch_id: str, watch: _Watch) -> wire.Schedule:
    asks = _asks((id_, target) for target, id_ in watch.ids.items())
    return wire.Schedule(watch_id, _options(watch.options), watch.interval_s, asks)


def _result(target: UrlTarget, seen: wire.Seen, apart_us: int) -> UrlResult:
    return UrlResult(
        node_id=target.node_id,
        code=seen.code,
        detail=seen.detail,
        at_us=seen.at_us + apart_us,
        took_us=seen.took_us,
    )


if TYPE_CHECKING:
    _conforms: type[UrlProber] = ProberClient
