"""Hears the heartbeats of hosts that have no Pacemaker: each has an agent that reports to every engine.

An engine's machine is a vantage point: it stores what it hears, reads what the others have stored, and
judges all of it. What is lost is only missed; that it is off, a power switch has to prove.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec
import structlog

from yaffle.config.address import split_address
from yaffle.core.health.host_heartbeat import HeartbeatPatience, judge_heartbeats
from yaffle.errors import ConfigError, StoreUnavailable
from yaffle.integrations.driver_settings import Section
from yaffle.model.host_heartbeat import HeardHost, Heartbeat, VantagePoint
from yaffle.model.msgspec_init import UNREADABLE
from yaffle.ports.host_monitor import HostMonitor, HostReport, MonitorBlind

if TYPE_CHECKING:
    from yaffle.ports.clock import Clock
    from yaffle.ports.context import DriverContext

log = structlog.get_logger()

LINE_MAX: Final = 4096
CONNECTIONS_MAX: Final = 10_000
HANDSHAKE_S: Final = 10.0
IDLE_S: Final = 60.0
TICK_S: Final = 1.0
STALL_S: Final = 5.0
"""Whoever was away for so long has not listened: what came meanwhile is old."""
SLACK_S: Final = 5.0
RESTARTS_MAX: Final = 8
FORGET_S: Final = 30 * 86_400.0
"""A host that is silent for so long has left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatSettings:
    """Section `host_monitors.NAME` with `type = "heartbeat"`."""

    listen: tuple[str, int]
    """Where agents report to, as HOST:PORT; each engine's own."""
    certificate: Path
    """This engine's, with the name by which agents call it."""
    key: Path
    """The certificate's private key."""
    ca: Path
    """The authority that the certificates of hosts are of; each names its host (CN, or a DNS name)."""
    hosts: tuple[str, ...]
    """Which hosts may report, by name; `*` and `?` stand for others."""
    lost_after: float
    """Seconds without a heartbeat after which a host is missed."""
    vantage_point: str
    """What this place is called; engines of one machine are one. Default: the machine's name."""

    @classmethod
    def read(cls, section: Section) -> HeartbeatSettings:
        """Raise ConfigError for what is missing, wrong or unknown."""
        files = {name: section.path(name) for name in ("certificate", "key", "ca")}
        for name, path in files.items():
            if path is None and section.right(name):
                section.wrong(name, "is missing: the path of a file")
        place = section.attempt("listen", lambda: _address(section), ("", 0))
        settings = cls(
            listen=place,
            **{name: path or Path() for name, path in files.items()},
            hosts=section.patterns("hosts"),
            lost_after=section.number("lost_after", 15.0, low=5, high=600),
            vantage_point=section.text("vantage_point", "") or socket.gethostname(),
        )
        section.finish()
        return settings


def _address(section: Section) -> tuple[str, int]:
    try:
        return split_address(section.text("listen"))
    except ValueError as error:
        raise ConfigError(f"{section.place('listen')}: {error}") from None


def _trust(section: Section, given: HeartbeatSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_cert_chain(given.certificate, given.key, password=lambda: "")
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{section.place('certificate')} = {given.certificate}, key = {given.key}: {error}"
        ) from None
    try:
        context.load_verify_locations(given.ca)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{section.place('ca')} = {given.ca}: {error}") from None
    return context


@dataclass(slots=True, kw_only=True)
class Host:
    """What we have heard of one host; times are of the clock that never jumps."""

    boot: str
    uptime_s: float
    heard_s: float
    beats: int = 0
    goodbye: bool = False
    closed: bool = False
    disk_s: float | None = None
    ahead_s: float = 0.0
    restarts: dict[str, int] = field(default_factory=dict)


class Hearing:
    """What one vantage point has heard, of each host the last."""

    def __init__(self, clock: Clock, lost_after_s: float) -> None:
        self._clock, self._lost_after_s = clock, lost_after_s
        self._hosts: dict[str, Host] = {}
        self._since_s = clock.monotonic_s()

    def restart(self) -> None:
        """Note that nobody listened until now."""
        self._since_s = self._clock.monotonic_s()

    def remember(self, point: VantagePoint) -> None:
        """Take over what this place stored before it was started anew."""
        now_s, ago_s = self._clock.monotonic_s(), (self._clock.now_us() - point.at_us) / 1e6
        for name, one in point.hosts.items():
            self._hosts.setdefault(
                name,
                Host(
                    boot=one.boot,
                    uptime_s=one.uptime_s,
                    heard_s=now_s - one.silent_s - max(0.0, ago_s),
                    goodbye=one.goodbye,
                    closed=one.closed,
                    restarts=dict(one.restarts),
                ),
            )

    def take(self, beat: Heartbeat) -> str:
        """Note a heartbeat; return why it is none, empty where it is one."""
        now_s, now_us = self._clock.monotonic_s(), self._clock.now_us()
        before = self._hosts.get(beat.host)
        if before is None:
            before = Host(boot=beat.boot, uptime_s=0.0, heard_s=now_s)
            self._hosts[beat.host] = before
        silent_s = now_s - before.heard_s
        if beat.boot != before.boot:
            if beat.uptime_s > silent_s + SLACK_S:
                return "another machine reports as this host"
            if not (before.goodbye or beat.clean):
                began_s = int(now_us / 1e6 - beat.uptime_s)
                kept = list(before.restarts.items())[1 - RESTARTS_MAX :]
                before.restarts = {**dict(kept), beat.boot: began_s}
            before.boot = beat.boot
        before.beats = 1 if silent_s >= self._lost_after_s else before.beats + 1
        before.uptime_s, before.heard_s = beat.uptime_s, now_s
        before.goodbye, before.closed = beat.goodbye, False
        before.disk_s, before.ahead_s = beat.disk_s, beat.at_s - now_us / 1e6
        return ""

    def close(self, host: str) -> None:
        """Note that the host's side has closed its connection."""
        if host in self._hosts:
            self._hosts[host].closed = True

    def point(self, name: str, *, every_s: float) -> VantagePoint:
        """Return what is stored of it."""
        now_s = self._clock.monotonic_s()
        heard = {
            host: HeardHost(
                boot=one.boot,
                uptime_s=one.uptime_s,
                silent_s=round(now_s - one.heard_s, 1),
                beats=one.beats,
                goodbye=one.goodbye,
                closed=one.closed,
                disk_s=one.disk_s,
                ahead_s=round(one.ahead_s, 1),
                restarts=one.restarts,
            )
            for host, one in self._hosts.items()
            if now_s - one.heard_s < FORGET_S
        }
        return VantagePoint(
            name=name,
            at_us=self._clock.now_us(),
            every_s=round(every_s, 1),
            listening_s=round(now_s - self._since_s, 1),
            hosts=heard,
        )


class AgentConnection(asyncio.Protocol):
    """One agent: its lines are heartbeats, each is answered."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._transport: asyncio.Transport | None = None
        self._names: frozenset[str] = frozenset()
        self._host = ""
        self._left = b""
        self.heard_s = listener.clock.monotonic_s()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note whom the certificate names."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - the loop's own promise
        self._transport = transport
        self._names = _named(transport.get_extra_info("peercert") or {})
        if not self._listener.joins(self):
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take every whole line."""
        self.heard_s = self._listener.clock.monotonic_s()
        *lines, self._left = (self._left + data).split(b"\n")
        for line in lines:
            if why := self._take(line):
                self._refuse(why)
                return
            self._write(b"ok\n")
        if len(self._left) > LINE_MAX:
            self._refuse("a line is too long")

    def connection_lost(self, exc: Exception | None) -> None:
        """Note whether the other side has ended it: one that is gone is only silent."""
        if self._host and (exc is None or isinstance(exc, ConnectionResetError | ssl.SSLError)):
            self._listener.hearing.close(self._host)
        self._listener.leaves(self)

    def abort(self) -> None:
        """End it, without a word."""
        self._host = ""
        if self._transport is not None:
            self._transport.abort()

    def _take(self, line: bytes) -> str:
        try:
            beat = msgspec.json.decode(line, type=Heartbeat)
        except UNREADABLE as error:
            return f"no heartbeat: {error}"
        if beat.host not in self._names:
            known = ", ".join(sorted(self._names)) or "nobody"
            return f"the certificate is not of {beat.host!r}; it names {known}"
        if not self._listener.may_report(beat.host):
            return f"{beat.host!r} is none of this engine's hosts (host_monitors.NAME.hosts)"
        why = self._listener.hearing.take(beat)
        self._host = "" if why else beat.host
        return why

    def _refuse(self, why: str) -> None:
        log.warning("heartbeat refused", why=why)
        self._write(f"no: {why}\n".encode())
        self._host = ""
        if self._transport is not None:
            self._transport.close()

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)


def _named(certificate: Mapping[str, object]) -> frozenset[str]:
    """Return the names in a certificate that was verified: its CN and DNS names."""
    subject = certificate.get("subject", ())
    others = certificate.get("subjectAltName", ())
    assert isinstance(subject, tuple)  # noqa: S101 - as ssl.getpeercert promises
    assert isinstance(others, tuple)  # noqa: S101
    names = {str(pair[1]) for part in subject for pair in part if pair[0] == "commonName"}
    return frozenset(names | {str(value) for kind, value in others if kind == "DNS"})


class Listener:
    """Listens to agents for as long as the process lives."""

    def __init__(self, clock: Clock, given: HeartbeatSettings, trust: ssl.SSLContext) -> None:
        self.clock = clock
        self.hearing = Hearing(clock, given.lost_after)
        self._given, self._trust = given, trust
        self._open: set[AgentConnection] = set()
        self._server: asyncio.Server | None = None
        self._ticked_s = 0.0

    @property
    def listening(self) -> bool:
        """Whether it does."""
        return self._server is not None

    @property
    def port(self) -> int:
        """Return where, for who let the system choose."""
        return int(self._server.sockets[0].getsockname()[1]) if self._server is not None else 0

    async def start(self) -> None:
        """Begin; raise OSError where the address is not to be had."""
        host, port = self._given.listen
        self._server = await asyncio.get_running_loop().create_server(
            lambda: AgentConnection(self),
            host,
            port,
            ssl=self._trust,
            ssl_handshake_timeout=HANDSHAKE_S,
        )
        self.hearing.restart()
        self._ticked_s = self.clock.monotonic_s()
        self._tick()

    async def stop(self) -> None:
        """End, with all connections."""
        if self._server is not None:
            self._server.close()
            self._end(self._open)
            await self._server.wait_closed()
            self._server = None

    def joins(self, connection: AgentConnection) -> bool:
        """Note a connection; False for one too many."""
        if len(self._open) >= CONNECTIONS_MAX:
            return False
        self._open.add(connection)
        return True

    def leaves(self, connection: AgentConnection) -> None:
        """Forget a connection."""
        self._open.discard(connection)

    def may_report(self, host: str) -> bool:
        """Whether it is one of the hosts that are wanted."""
        return any(fnmatchcase(host, pattern) for pattern in self._given.hosts)

    def attend(self) -> None:
        """End the connections that are silent, and all of them after a time without attention."""
        now_s = self.clock.monotonic_s()
        if now_s - self._ticked_s > STALL_S:
            log.warning("heartbeats not heard", stalled_s=round(now_s - self._ticked_s, 1))
            self.hearing.restart()
            self._end(self._open)
        self._end({one for one in self._open if now_s - one.heard_s > IDLE_S})
        self._ticked_s = now_s

    def _tick(self) -> None:
        if self._server is None:
            return
        self.attend()
        asyncio.get_running_loop().call_later(TICK_S, self._tick)

    @staticmethod
    def _end(connections: set[AgentConnection]) -> None:
        for connection in tuple(connections):
            connection.abort()


class HeartbeatMonitor:
    """Judges what all vantage points hear, this one among them."""

    type: ClassVar[str] = "heartbeat"
    by_hand: ClassVar[str] = ""

    def __init__(self, context: DriverContext) -> None:
        section = Section(context.section or "host_monitors.heartbeat", context.settings)
        given = HeartbeatSettings.read(section)
        self._place = section.where
        self._given, self._clock = given, context.clock
        self._points = context.vantage_points
        self._terms = HeartbeatPatience(lost_after_s=given.lost_after)
        self._trust = _trust(section, given)
        self.listener = Listener(context.clock, given, self._trust)
        self._files = _stamp(given)
        self._shared_s: float | None = None
        self._turn = asyncio.Lock()

    async def look(self, *, deadline_s: float) -> HostReport | MonitorBlind:
        """Return what is made of all that is heard; the first look begins to listen."""
        if self._points is None:
            return MonitorBlind(why="this process has no database to share what it hears")
        try:
            async with asyncio.timeout(deadline_s), self._turn:
                if not self.listener.listening:
                    for point in await self._points.stored(self._place):
                        if point.name == self._given.vantage_point:
                            self.listener.hearing.remember(point)
                    await self.listener.start()
                self._renew()
                points = await self._points.share(self._place, self._point())
        except StoreUnavailable as error:
            return MonitorBlind(why=str(error))
        except TimeoutError:
            return MonitorBlind(why=f"what is heard could not be shared within {deadline_s:g} s")
        except OSError as error:
            host, port = self._given.listen
            return MonitorBlind(why=f"cannot listen on {host}:{port}: {error.strerror or error}")
        return judge_heartbeats(points, self._clock.now_us(), self._terms)

    def _point(self) -> VantagePoint:
        self.listener.attend()
        now_s = self._clock.monotonic_s()
        every_s = 0.0 if self._shared_s is None else now_s - self._shared_s
        self._shared_s = now_s
        return self.listener.hearing.point(self._given.vantage_point, every_s=every_s)

    def _renew(self) -> None:
        """Take a renewed certificate for connections to come; one that makes no sense changes nothing."""
        files = _stamp(self._given)
        if files == self._files:
            return
        try:
            self._trust.load_cert_chain(
                self._given.certificate, self._given.key, password=lambda: ""
            )
        except (OSError, ValueError) as error:
            log.warning("certificate refused, the old one stays in use", reason=str(error))
            return
        self._files = files
        log.info("certificate read again", certificate=str(self._given.certificate))


def _stamp(given: HeartbeatSettings) -> tuple[object, ...]:
    """Return what tells one state of the files from another; an empty one while they are away."""
    try:
        found = [path.stat() for path in (given.certificate, given.key)]
    except OSError:
        return ()
    return tuple((one.st_ino, one.st_mtime_ns, one.st_size) for one in found)


if TYPE_CHECKING:
    _conforms: type[HostMonitor] = HeartbeatMonitor
