"""Hears the heartbeats of hosts that have no Pacemaker: each has an agent that reports to every engine.

An engine's machine is a vantage point: it stores what it hears, reads what the others have stored, and
judges all of it. What is lost is only missed; that it is off, a power switch has to prove.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec
import structlog
from msgspec.structs import replace

from yaffle.config.address import split_address
from yaffle.core.health.host_heartbeat import MISSED, HeartbeatPatience, judge_heartbeats
from yaffle.errors import ConfigError, StoreUnavailable
from yaffle.integrations.driver_settings import Section
from yaffle.model.host_heartbeat import HeardHost, Heartbeat, VantagePoint
from yaffle.model.msgspec_init import UNREADABLE
from yaffle.ports.host_monitor import HostMonitor, HostReport, MonitorBlind, is_named

if TYPE_CHECKING:
    from yaffle.ports.clock import Clock
    from yaffle.ports.context import DriverContext

log = structlog.get_logger()

LINE_MAX: Final = 1024
REFUSAL_MAX: Final = 300
CONNECTIONS_MAX: Final = 10_000
HANDSHAKE_S: Final = 5.0
HANDSHAKES_MAX: Final = 64
HANDSHAKES_OF_PEER: Final = 8
"""Of one address at a time: a stranger must not keep others from theirs."""
LINES_MAX: Final = 20
"""Heartbeats of one connection a second."""
IDLE_S: Final = 60.0
SAID_S: Final = 600.0
"""The same refusal is logged so seldom."""
SAID_MAX: Final = 1000
TICK_S: Final = 1.0
STALL_S: Final = 5.0
"""Whoever was away for so long has not listened: what came meanwhile is old."""
SLACK_S: Final = 5.0
RESTARTS_MAX: Final = 8
RESTART_S: Final = 60
"""A host that starts anew again and again has failed once in so long."""
ANY_TIME: Final = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME: whoever comes too late is told so, and is known to live."""
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
    context.verify_flags |= ANY_TIME
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

    said: HeardHost
    heard_s: float
    refused_s: float = 0.0


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
        if ago_s < 0:
            # Our clock went back: how long ago that was nobody knows.
            ago_s = FORGET_S / 2
        for name, one in point.hosts.items():
            said = replace(one, beats=0, refused="")
            known = Host(said=said, heard_s=now_s - one.silent_s - ago_s)
            self._hosts.setdefault(name, known)

    def take(self, beat: Heartbeat, expires_s: float) -> str:
        """Note a heartbeat; return why it is none, empty where it is one.

        `expires_s`: when the certificate ends by which it came (seconds since the epoch).
        """
        now_s, at_s = self._clock.monotonic_s(), self._clock.now_us() / 1e6
        before = self._hosts.get(beat.host)
        was = HeardHost(boot=beat.boot, uptime_s=0.0, silent_s=0.0, beats=0)
        silent_s = 0.0
        if before is not None:
            was, silent_s = before.said, now_s - before.heard_s
        began_s, cleaned, restarts = int(at_s - beat.uptime_s), was.cleaned, was.restarts
        if beat.boot != was.boot:
            anew = beat.uptime_s <= silent_s + SLACK_S
            if not anew and silent_s < self._lost_after_s:
                return "another machine reports as this host"
            if was.goodbye or beat.clean:
                cleaned = beat.boot
            elif anew and began_s - max(restarts.values(), default=0) >= RESTART_S:
                kept = list(restarts.items())[1 - RESTARTS_MAX :]
                restarts = {**dict(kept), beat.boot: began_s}
        missed_s = max(self._lost_after_s, MISSED * beat.every_s)
        follows = beat.boot == was.boot and silent_s < missed_s
        said = HeardHost(
            boot=beat.boot,
            uptime_s=beat.uptime_s,
            silent_s=0.0,
            beats=was.beats + 1 if follows else 1,
            goodbye=beat.goodbye,
            cleaned=cleaned,
            every_s=beat.every_s,
            disk_s=beat.disk_s,
            ahead_s=round(beat.at_s - at_s, 1),
            expires_s=expires_s,
            restarts=restarts,
        )
        self._hosts[beat.host] = Host(said=said, heard_s=now_s)
        return ""

    def refuse(self, names: Iterable[str], why: str) -> None:
        """Note that somebody called by the certificate of these hosts, and was not heard."""
        for one in filter(None, map(self._hosts.get, names)):
            one.said, one.refused_s = replace(one.said, refused=why), self._clock.monotonic_s()

    def close(self, host: str) -> None:
        """Note that the host's side has closed its connection."""
        if (one := self._hosts.get(host)) is not None:
            one.said = replace(one.said, closed=True)

    def point(self, name: str, *, every_s: float) -> VantagePoint:
        """Return what is stored of it."""
        now_s = self._clock.monotonic_s()
        heard = {
            host: replace(
                one.said,
                silent_s=round(now_s - one.heard_s, 1),
                refused=one.said.refused if now_s - one.refused_s < self._lost_after_s else "",
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

    def __init__(self, listener: Listener, peer: str) -> None:
        self._listener, self._peer = listener, peer
        self._transport: asyncio.Transport | None = None
        self._names: frozenset[str] = frozenset()
        self._ends = ""
        self._ends_s = 0.0
        self._left = b""
        self._lines: tuple[int, int] = (0, 0)
        """A second, and how many lines came in it."""
        self.host = ""
        """Who speaks; empty before the first heartbeat, and where we have ended it."""
        self.heard_s = listener.clock.monotonic_s()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note whom the certificate names."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - the loop's own promise
        self._transport = transport
        certificate = transport.get_extra_info("peercert") or {}
        self._names, self._ends = _named(certificate), str(certificate.get("notAfter", ""))
        self._ends_s = ssl.cert_time_to_seconds(self._ends)
        self._listener.joins(self)

    def data_received(self, data: bytes) -> None:
        """Take every whole line; what came while nobody attended is old."""
        self._listener.attend()
        if self._transport is None:
            return
        self.heard_s = self._listener.clock.monotonic_s()
        *lines, self._left = (self._left + data).split(b"\n")
        for line in lines:
            if why := self._take(line):
                self._refuse(why)
                return
            self._transport.write(b"ok\n")
        if len(self._left) > LINE_MAX:
            self._refuse("a line is too long")

    def pause_writing(self) -> None:
        """End it: whoever does not read what it is answered is no agent."""
        self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note whether the other side has ended it: one that is gone is only silent."""
        if self.host and (exc is None or isinstance(exc, ConnectionResetError | ssl.SSLError)):
            self._listener.hearing.close(self.host)
        self._transport = None
        self._listener.leaves(self)

    def abort(self) -> None:
        """End it, without a word."""
        self.host = ""
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def _take(self, line: bytes) -> str:
        second = int(self.heard_s)
        self._lines = (second, self._lines[1] + 1 if self._lines[0] == second else 1)
        if self._lines[1] > LINES_MAX or len(line) > LINE_MAX:
            return "it says too much"
        if self._ends_s < self._listener.clock.now_us() / 1e6:
            return f"its certificate has expired: {self._ends}"
        try:
            beat = msgspec.json.decode(line, type=Heartbeat)
        except UNREADABLE as error:
            return f"no heartbeat: {error}"
        if beat.host not in self._names:
            known = ", ".join(sorted(self._names)) or "nobody"
            return f"the certificate is not of {beat.host!r}; it names {known}"
        if not self._listener.may_report(beat.host):
            return f"{beat.host!r} is none of this engine's hosts (host_monitors.NAME.hosts)"
        if why := self._listener.hearing.take(beat, self._ends_s):
            return why
        if self.host != beat.host:
            self.host = beat.host
            self._listener.speaks(self)
        return ""

    def _refuse(self, why: str) -> None:
        why = why[:REFUSAL_MAX]
        self._listener.refused(self._names, self._peer, why)
        self.host = ""
        if self._transport is not None:
            self._transport.write(f"no: {why}\n".encode())
            self._transport.close()
            self._transport = None


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
        self._speaking: dict[str, AgentConnection] = {}
        self._handshakes: dict[asyncio.Task[None], str] = {}
        """Connections that are not agents yet, and from where they come."""
        self._socket: socket.socket | None = None
        self._most = CONNECTIONS_MAX
        self._ticked_s = 0.0
        self._logged: dict[tuple[str, str], float] = {}

    @property
    def listening(self) -> bool:
        """Whether it does."""
        return self._socket is not None

    @property
    def port(self) -> int:
        """Return where, for who let the system choose."""
        return int(self._socket.getsockname()[1]) if self._socket is not None else 0

    async def start(self) -> None:
        """Begin; raise OSError where the address is not to be had."""
        loop = asyncio.get_running_loop()
        host, port = self._given.listen
        (family, *_, address), *_ = await loop.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        self._socket = socket.create_server(address[:2], family=family, backlog=512)
        self._socket.setblocking(False)
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != resource.RLIM_INFINITY:
            # The other half is for everything else that an engine does.
            self._most = min(CONNECTIONS_MAX, max(1, soft // 2 - HANDSHAKES_MAX))
        self.hearing.restart()
        self._ticked_s = self.clock.monotonic_s()
        self._listen()
        self._tick()

    def _listen(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().add_reader(self._socket, self._accept)

    async def stop(self) -> None:
        """End, with all connections."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None
            self._end(self._open)
            for task in self._handshakes:
                task.cancel()
            await asyncio.gather(*self._handshakes, return_exceptions=True)

    def _accept(self) -> None:
        """Take who waits; who is one too many is sent away, and comes again."""
        assert self._socket is not None  # noqa: S101 - it is what is read
        loop = asyncio.get_running_loop()
        for _ in range(HANDSHAKES_MAX):
            try:
                one, (peer, *_) = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                # There are no descriptors, say: whoever waits is asked in, later.
                self._log("nobody is let in", "", str(error))
                loop.remove_reader(self._socket)
                loop.call_later(TICK_S, self._listen)
                return
            mine = sum(other == peer for other in self._handshakes.values())
            room = len(self._open) + len(self._handshakes) < self._most
            if len(self._handshakes) >= HANDSHAKES_MAX or mine >= HANDSHAKES_OF_PEER or not room:
                one.close()
                continue
            one.setblocking(False)
            task = loop.create_task(self._greet(one, str(peer)))
            self._handshakes[task] = str(peer)
            task.add_done_callback(self._handshakes.pop)

    async def _greet(self, one: socket.socket, peer: str) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: AgentConnection(self, peer),
                one,
                ssl=self._trust,
                ssl_handshake_timeout=HANDSHAKE_S,
            )
        except OSError as error:
            one.close()
            self._log("no TLS", peer, str(error))

    def joins(self, connection: AgentConnection) -> None:
        """Note a connection."""
        self._open.add(connection)

    def leaves(self, connection: AgentConnection) -> None:
        """Forget a connection."""
        self._open.discard(connection)

    def speaks(self, connection: AgentConnection) -> None:
        """Note who speaks for a host; whoever did before has come back by another connection."""
        before = self._speaking.get(connection.host)
        if before is not None and before is not connection:
            before.abort()
        self._speaking[connection.host] = connection

    def refused(self, names: Iterable[str], peer: str, why: str) -> None:
        """Note a host that called and was not heard."""
        self.hearing.refuse(names, why)
        self._log("heartbeat refused", ", ".join(sorted(names)) or peer, why)

    def _log(self, what: str, who: str, why: str) -> None:
        now_s = self.clock.monotonic_s()
        if now_s - self._logged.get((who, why), -SAID_S) < SAID_S:
            return
        if len(self._logged) >= SAID_MAX:
            self._logged.clear()
        self._logged[who, why] = now_s
        log.warning(what, who=who, why=why)

    def may_report(self, host: str) -> bool:
        """Whether it is one of the hosts that are wanted."""
        return is_named(host, self._given.hosts)

    def attend(self) -> None:
        """End the connections that are silent, and all of them after a time without attention."""
        now_s = self.clock.monotonic_s()
        if now_s - self._ticked_s > STALL_S:
            log.warning("heartbeats not heard", stalled_s=round(now_s - self._ticked_s, 1))
            self.hearing.restart()
            self._end(self._open)
        self._ticked_s = now_s

    def _tick(self) -> None:
        if self._socket is None:
            return
        self.attend()
        now_s = self.clock.monotonic_s()
        self._end({one for one in self._open if now_s - one.heard_s > IDLE_S})
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
        self._place, self._section = section.where, section
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
        wanted = [
            replace(
                point, hosts={h: v for h, v in point.hosts.items() if self.listener.may_report(h)}
            )
            for point in points
        ]
        return judge_heartbeats(wanted, self._clock.now_us(), self._terms)

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
        self._files = files
        try:
            # First elsewhere: half of a pair would take the place of the one in use.
            _trust(self._section, self._given)
        except ConfigError as error:
            log.warning("certificate refused, the old one stays in use", reason=str(error))
            return
        given = self._given
        self._trust.load_cert_chain(given.certificate, given.key, password=lambda: "")
        self._trust.load_verify_locations(given.ca)
        log.info("certificate read again", certificate=str(given.certificate))


def _stamp(given: HeartbeatSettings) -> tuple[object, ...]:
    """Return what tells one state of the files from another; an empty one while they are away."""
    try:
        found = [path.stat() for path in (given.certificate, given.key, given.ca)]
    except OSError:
        return ()
    return tuple((one.st_ino, one.st_mtime_ns, one.st_size) for one in found)


if TYPE_CHECKING:
    _conforms: type[HostMonitor] = HeartbeatMonitor
