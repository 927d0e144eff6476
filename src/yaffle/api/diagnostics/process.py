"""Diagnoses this process: its engine, prober, clock and listeners."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from prometheus_client import generate_latest

from yaffle.api.diagnostics import disk
from yaffle.api.diagnostics.report import Check, Status, judged
from yaffle.api.tls import read_certificates
from yaffle.config import is_loopback, split_address
from yaffle.config.private import writer_fault
from yaffle.engine.explain.answer import LastWord
from yaffle.errors import ConfigError
from yaffle.ports import SupportsListenerStatus
from yaffle.ports.clock import SteeredClock

if TYPE_CHECKING:
    from pathlib import Path

    from yaffle.api.diagnostics.engine_facts import EngineFacts
    from yaffle.config import ServerSettings, Settings
    from yaffle.engine.engine import Engine
    from yaffle.engine.runtime.change_poller import ChangePoller
    from yaffle.engine.runtime.context import EngineContext
    from yaffle.model.ids import NodeId
    from yaffle.ports import Clock
    from yaffle.prober.client import ProberStats

SILENT_S: Final = 5.0
"""A database that has not answered for so long is away, whatever was not asked of it meanwhile."""


class Process:
    """Implements `EngineFacts` of this process; `yaffle api` has neither engine nor prober."""

    def __init__(
        self,
        *,
        ctx: EngineContext,
        settings: Settings,
        engine: Engine | None = None,
        prober: Callable[[], ProberStats] | None = None,
        ticker: ChangePoller | None = None,
    ) -> None:
        self._ctx = ctx
        self._settings = settings
        self._engine = engine
        self._prober = prober
        self._ticker = ticker
        self._wall_us = _machine_us(ctx.clock)
        self._mono_s = ctx.clock.monotonic_s()

    def vital(self) -> Iterator[Check]:
        """Yield what a probe that comes every second wants to know."""
        if self._engine is None:
            yield from self.database()
        elif why := self._ctx.room.lacks(here=True):
            yield disk.failed(why)
        yield from self.session()
        yield from self.probing(restarting=Status.WARN)

    async def checks(self, causes: Sequence[Check]) -> Sequence[Check]:
        """As `EngineFacts`."""
        return [*self.session(causes), *self.probing(), *self.hearing(), self._clock()]

    async def unseen(self) -> Sequence[str] | None:
        """As `EngineFacts`; of several engines none knows all of them."""
        if self._engine is None or not self._ctx.alone:
            return None
        return [
            node
            for watch in self._engine.watches.values()
            if watch.never_seen
            for node in watch.memories.keys() - watch.seen
        ]

    async def last_words(self, node_id: NodeId) -> Mapping[str, LastWord] | None:
        """As `EngineFacts`."""
        memory = None if self._engine is None else self._engine.memory_of(node_id)
        if memory is None:
            return None
        return {mode: LastWord.of(track) for mode, track in memory.tracks.items()}

    async def metrics(self) -> bytes:
        """As `EngineFacts`."""
        return generate_latest(self._ctx.metrics.registry)

    def session(self, causes: Sequence[Check] = ()) -> Iterator[Check]:
        """Yield whether our engine may act; nothing where there is none."""
        if self._engine is None:
            return
        session = self._engine.session
        if session is None:
            why = "".join(f"; {c.name}: {c.detail}" for c in causes)
            yield Check(
                name="engine",
                status=Status.FAIL,
                detail=f"it has no session: it observes at most, and does not act{why}",
                advice="It begins one when the database answers; see there, and in the log.",
            )
            return
        left_s = session.left_s()
        yield judged(
            "engine",
            left_s <= 0,
            f"epoch {session.epoch}, lease for another {left_s:.1f} s",
            "Its lease is over and it stops acting; it begins anew by itself. Look at the database.",
            worst=Status.FAIL,
        )

    def probing(self, *, restarting: Status = Status.FAIL) -> Iterator[Check]:
        """Yield how our prober is; nothing where there is none."""
        if self._prober is None:
            return
        stats = self._prober()
        detail = (
            f"pid {stats.pid}, {stats.checks_per_s:.1f} checks/s, {stats.restarts} restarts"
            if stats.up
            else f"away, after {stats.restarts} restarts"
        )
        yield judged(
            "prober",
            not stats.up,
            detail,
            "It is restarted by itself; until then URLs are not asked. See the log if it stays away.",
            worst=restarting,
        )

    def hearing(self) -> Iterator[Check]:
        """Yield each place where a detector of ours listens, and whether anything is heard there."""
        for mode, detector in sorted(self._ctx.drivers.detectors.items()):
            if isinstance(detector, SupportsListenerStatus):
                for listener in detector.listeners():
                    detail = f"{listener.name}: {listener.fault or listener.detail}"
                    yield judged(f"events of {mode}", bool(listener.fault), detail, listener.advice)

    def database(self) -> Iterator[Check]:
        """Yield whether the database answers this process."""
        ticker = self._ticker
        if ticker is None:
            return
        away = bool(ticker.fault) or ticker.silent_s > SILENT_S
        yield judged(
            "database",
            away,
            f"it answered last {ticker.silent_s:.0f} s ago; see the log" if away else "it answers",
            "Requests are answered with 503 until it is back; nothing has to be restarted.",
            worst=Status.FAIL,
        )

    def _clock(self) -> Check:
        clock = self._ctx.clock
        moved_s = (_machine_us(clock) - self._wall_us) / 1e6 - (clock.monotonic_s() - self._mono_s)
        return judged(
            "clock",
            abs(moved_s) > self._settings.engine.clock_jump,
            f"moved by {moved_s:+.3f} s against the monotonic clock since the start",
            "Something sets the clock in steps; run an NTP daemon that slews it.",
        )


def access(settings: Settings) -> Iterator[Check]:
    """Yield who may ask this server, and for what."""
    server = settings.server
    near = "loopback" if is_loopback(split_address(server.listen)[0]) else "reachable"
    files = (("tokens", server.token_file), ("users", server.users_file))
    known = " and ".join(f"{what} from {path}" for what, path in files if path)
    yield Check(
        name="access",
        status=Status.OK,
        detail=f"{server.listen} ({near}), {known or 'anybody, without credentials'}",
    )
    yield judged(
        "local processes",
        settings.local_process.enabled and near != "loopback",
        "on: whoever may create their profiles may run commands as this user"
        if settings.local_process.enabled
        else "off",
        "Every admin can run commands here; listen on loopback, or switch them off.",
    )


def notifiers(ctx: EngineContext) -> Check:
    """Return who is told of incidents."""
    names = ", ".join(ctx.notify)
    return judged(
        "notifiers", not names, names or "none", "Nobody is told of incidents: set notifiers."
    )


def _machine_us(clock: Clock) -> int:
    """Return the time by the machine's own clock, whoever else's ours is kept with."""
    return clock.now_us() - (clock.offset_us() if isinstance(clock, SteeredClock) else 0)


def certificates(server: ServerSettings) -> Iterator[Check]:
    """Yield whether the files of the server's certificate could be used now; asks the disk."""
    name = "tls"
    try:
        known = read_certificates(server)
    except ConfigError as error:
        advice = (
            "What was read before stays in use until the files make sense; no restart is needed."
        )
        yield Check(name=name, status=Status.WARN, detail=str(error), advice=advice)
        return
    if known is not None:
        yield Check(name=name, status=Status.OK, detail=f"certificate {server.tls_certificate}")


def state_dir(path: Path) -> Check:
    """Return whether the state directory is there, and private; asks the disk."""
    name = "state directory"
    try:
        found = path.stat()
        fault = writer_fault(path, found)
    except OSError as error:
        return Check(
            name=name,
            status=Status.FAIL,
            detail=f"{path}: {error.strerror}",
            advice="It holds the records of local nodes: bring it back and restart.",
        )
    if fault is not None:
        return Check(name=name, status=Status.FAIL, detail=str(path), advice=fault)
    mode = found.st_mode
    return judged(
        name,
        bool(mode & (stat.S_IRWXG | stat.S_IRWXO)),
        f"{path}, mode {stat.S_IMODE(mode):04o}",
        f"It holds commands and secrets: chmod 700 {path}",
    )


if TYPE_CHECKING:
    _conforms: type[EngineFacts] = Process
