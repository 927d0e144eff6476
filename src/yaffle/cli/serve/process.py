"""The life of a server process: bind, open, announce, run until it is told to end, close in order.

    bind ─▶ listen ─▶ open the database (a server that is away is waited for) ─▶ run ─▶ signal
    ─▶ no new requests, those under way end ─▶ the engine gives its leases back ─▶ close the database

`engine` and `api` are one process each; `serve` is an engine that has the API beside it, in a process
of its own, which lives the same life but for signals: its engine tells it when to open and to end.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, assert_never

import structlog

from yaffle import wiring
from yaffle.api.app_context import parts_of
from yaffle.api.audit import Audit
from yaffle.api.auth import read_identity
from yaffle.api.diagnostics.process import Process
from yaffle.api.http.connection_limits import raise_files
from yaffle.api.http.server import address_of, bind
from yaffle.api.http.server import serve as serve_http
from yaffle.api.self_health import Vitals
from yaffle.api.startup_app import StartupApp
from yaffle.api.tls import Certificates, read_certificates
from yaffle.cli.client import address
from yaffle.cli.serve import link, supervisor_status, systemd
from yaffle.cli.serve.api_process import ApiProcess
from yaffle.cli.serve.link import EngineLink
from yaffle.cli.serve.supervisor_status import Announcer
from yaffle.config import OFF, Faults
from yaffle.engine.runtime import gc_tuning
from yaffle.engine.runtime.clock import SystemClock
from yaffle.errors import ConfigError

if TYPE_CHECKING:
    from yaffle.api.diagnostics.engine_facts import EngineFacts
    from yaffle.config import ServerSettings, Settings
    from yaffle.engine.runtime.metrics import Metrics

log = structlog.get_logger()


SPEECHLESS_S: Final = 5.0
"""So long an API process beside an engine says nothing, where all it could say is "not yet"."""
NOWHERE: Final = "127.0.0.1:0"
"""Stands for the address of a process that does not listen."""


class Role(Enum):
    """Command that this process belongs to."""

    SERVE = "serve"
    ENGINE = "engine"
    API = "api"


def run(settings: Settings, role: Role) -> None:
    """Live until SIGTERM or SIGINT; raise what ended it otherwise."""
    vitals = _vitals(settings, f"yaffle-{role.value}")
    listening = _listening(settings, role)
    # What is refused leaves nothing behind.
    certificates = check(settings, role)
    entrance = None
    if role is not Role.SERVE:
        entrance = StartupApp(listening, clock=SystemClock(), vitals=vitals)
    # The port first: a second server is turned away before it touches anything.
    setting = "engine.listen" if role is Role.ENGINE else "server.listen"
    silent = role is Role.ENGINE and settings.engine.listen == OFF
    sock = None if silent else bind(listening.listen, setting=setting)
    gc_tuning.calm()
    if not settings.local_process.enabled:
        # Nodes would inherit it, and some programs do not live with more than 1024.
        raise_files()
    try:
        asyncio.run(_Life(settings, role, vitals, sock, certificates, entrance).live())
    finally:
        if sock is not None:
            sock.close()


def check(settings: Settings, role: Role = Role.SERVE) -> Certificates | None:
    """Raise ConfigError for all that a start refuses, before it makes anything; return what TLS shows."""
    faults, certificates = Faults(), None
    with faults.gather():
        if role is not Role.SERVE and settings.is_embedded:
            raise ConfigError(
                f"database.url = {settings.database_url}: one engine alone holds an SQLite file, so"
                f" `yaffle {role.value}` cannot share it; run `yaffle serve`, which is an API and an"
                " engine, or keep the state in PostgreSQL or MariaDB"
                " (postgresql://USER:PASSWORD@HOST/NAME)"
            )
    with faults.gather():
        wiring.check(settings)
    listening = _listening(settings, role)
    with faults.gather():
        certificates = read_certificates(listening)
    with faults.gather():
        read_identity(listening, SystemClock())
    faults.settle(settings.origin)
    return certificates


def run_api(
    settings: Settings, pipe: socket.socket, sock: socket.socket, *, engine_pid: int
) -> None:
    """Be the API process of `yaffle serve` until the engine at the other end of `pipe` ends it."""
    vitals = _vitals(settings, "yaffle-serve")
    entrance = StartupApp(settings.server, clock=SystemClock(), vitals=vitals)
    certificates = read_certificates(settings.server)
    gc_tuning.calm()
    raise_files()

    async def live() -> None:
        reader, writer = await asyncio.open_connection(sock=pipe)
        linked = _Linked(EngineLink(writer, SystemClock()), reader, engine_pid)
        life = _Life(settings, Role.SERVE, vitals, sock, certificates, entrance, linked)
        await life.live()

    with sock:
        asyncio.run(live())


def _vitals(settings: Settings, description: str) -> Vitals:
    return Vitals(
        description=description, host=socket.gethostname(), ttl_s=settings.healthcheck.ttl
    )


@contextmanager
def _audit(settings: Settings, role: Role, entrance: StartupApp) -> Iterator[None]:
    """Have changes and refusals written down while the block lasts."""
    if not settings.audit.files:
        yield
        return
    folder = wiring.made_dir(settings.state_dir) / "audit"
    audit = Audit(folder, role.value, settings.audit, SystemClock())
    audit.start()
    entrance.record(audit)
    try:
        yield
    finally:
        audit.close()


def _listening(settings: Settings, role: Role) -> ServerSettings:
    """Return where the process listens, and who may ask it there."""
    if role is not Role.ENGINE:
        return settings.server
    listen = settings.engine.listen
    return settings.server.model_copy(update={"listen": NOWHERE if listen == OFF else listen})


class _Linked:
    """The API process's end of the pipe to its engine."""

    def __init__(
        self, engine_link: EngineLink, reader: asyncio.StreamReader, engine_pid: int
    ) -> None:
        self.link = engine_link
        self.engine_pid = engine_pid
        self.may_open = asyncio.Event()
        self.has_word = asyncio.Event()
        """There is something to say: the answer, or why the database cannot be opened."""
        self.ready = False
        """Whether requests are answered."""
        self._reader = reader

    async def attend(self, stopping: asyncio.Event) -> None:
        """Take what the engine says until it says stop, or is gone."""
        async for body in link.frames_of(self._reader):
            message = link.to_api.decode(body)
            match message:
                case link.Vital():
                    self.link.hear(message)
                    self.link.tell(link.Alive(message.number, self.ready))
                case link.Answer():
                    self.link.hear(message)
                case link.Open():
                    self.may_open.set()
                case link.Stop():
                    break
                case link.Begin():
                    continue
                case _:
                    assert_never(message)
        stopping.set()


@dataclass(frozen=True, slots=True)
class _Life:
    settings: Settings
    role: Role
    vitals: Vitals
    sock: socket.socket | None
    certificates: Certificates | None
    entrance: StartupApp | None
    """What answers on the socket; None where a process of its own does."""
    linked: _Linked | None = None
    """How the engine beside us is reached; None where nobody but a signal ends us."""

    async def live(self) -> None:
        """Start what listens and what works; end them in the order of the module's drawing."""
        supervisor = systemd.from_here()
        stopping = asyncio.Event()
        apart = self._apart()
        with ExitStack() as stack:
            if self.linked is None:
                stack.enter_context(_signals(stopping))
                stack.enter_context(self.vitals.open(self.settings.healthcheck))
            announcer = Announcer(
                supervisor,
                prefix="" if self.sock is None else f"listening on {address_of(self.sock)}; ",
                on_ready=lambda: self._ready(stack),
            )
            async with asyncio.TaskGroup() as group:
                asked = [group.create_task(each, name="http") for each in self._asked(apart)]
                work = group.create_task(self._work(announcer, apart), name="work")
                says = group.create_task(announcer.run(), name="announcer")
                signs = [group.create_task(each) for each in self._signs(supervisor)]
                if self.linked is not None:
                    signs.append(group.create_task(self.linked.attend(stopping), name="link"))
                await stopping.wait()
                # Before anything: what ends is not ready any more, and listens nowhere.
                says.cancel()
                if self.linked is None:
                    log.info("stopping", nodes="keep running")
                supervisor.tell("STOPPING=1")
                for task in (says, *asked, work, *signs):
                    task.cancel()
                    await asyncio.wait([task])
        if self.linked is None:
            log.info("stopped")

    def _apart(self) -> ApiProcess | None:
        if self.entrance is not None or self.sock is None:
            return None
        return ApiProcess(self.settings, self.sock, SystemClock())

    def _asked(self, apart: ApiProcess | None) -> Iterator[Coroutine[object, object, None]]:
        """Yield what answers requests."""
        if apart is not None:
            yield apart.run()
        elif self.entrance is not None and self.sock is not None:
            yield self._http(self.entrance, self.sock)

    def _signs(self, supervisor: systemd.Systemd) -> Iterator[Coroutine[object, object, None]]:
        yield supervisor.keep(SystemClock())
        yield self.vitals.keep(SystemClock())
        if self.certificates is not None and self.entrance is not None:
            yield self.certificates.keep(SystemClock())

    async def _http(self, entrance: StartupApp, sock: socket.socket) -> None:
        if self.linked is not None:
            # What comes meanwhile waits in the socket: an answer is better than a refusal.
            with suppress(TimeoutError):
                async with asyncio.timeout(SPEECHLESS_S):
                    await self.linked.has_word.wait()
            self.linked.ready = True
            # At once: with one that may write by now, less patience is had than with one that starts.
            self.linked.link.tell(link.Alive(0, ready=True))
        tls = None if self.certificates is None else self.certificates.context
        await serve_http(entrance, sock, self.settings.server, tls=tls)

    async def _work(self, announcer: Announcer, apart: ApiProcess | None) -> None:
        """Open the database, admit those who ask, and run what there is to run."""

        def waiting(fault: str) -> None:
            known = "" if self.entrance is None else self.entrance.fault
            if known != fault and self.linked is None:
                log.warning("waiting for the database", error=fault)
            if self.entrance is not None:
                self.entrance.fault = fault
            if self.linked is not None:
                self.linked.has_word.set()
            stands = supervisor_status.waiting(fault)
            announcer.look = lambda: stands if apart is None else apart.standing(stands)

        if apart is not None:
            await self._serve(announcer, waiting, apart)
        elif self.entrance is not None:
            if self.linked is not None:
                # The group's cancellation bounds this wait.
                await self.linked.may_open.wait()
            with _audit(self.settings, self.role, self.entrance):
                if self.role is Role.ENGINE:
                    await self._engine(announcer, waiting, self.entrance)
                else:
                    await self._front(announcer, waiting, self.entrance)

    async def _front(
        self, announcer: Announcer, waiting: Callable[[str], None], entrance: StartupApp
    ) -> None:
        linked = self.linked
        async with wiring.front(
            self.settings,
            waiting=waiting,
            engine_pid=None if linked is None else linked.engine_pid,
        ) as front:
            own = Process(ctx=front.ctx, settings=self.settings, ticker=front.ticker)
            facts: EngineFacts = own
            if linked is not None:
                linked.link.own = own
                facts = linked.link
            parts = parts_of(
                ctx=front.ctx,
                commands=front.commands,
                settings=self.settings,
                facts=facts,
                vitals=self.vitals,
            )
            entrance.admit(parts)
            if linked is not None:
                linked.has_word.set()
            announcer.look = lambda: supervisor_status.of_api(front.ticker)
            async with asyncio.TaskGroup() as group:
                group.create_task(front.ticker.run(), name="ticker")
                if parts.trusts is not None:
                    # What is left to do for those who asked.
                    group.create_task(parts.trusts.run(), name="trusts")

    async def _engine(
        self, announcer: Announcer, waiting: Callable[[str], None], entrance: StartupApp
    ) -> None:
        async with wiring.service(self.settings, waiting=waiting) as service:
            entrance.admit_probes(_Told(_facts(service), service.ctx.metrics, self.vitals))
            self.vitals.look = _facts(service).vital
            announcer.look = lambda: supervisor_status.of_engine(service.engine, service.ticker)
            await wiring.run(service)

    async def _serve(
        self, announcer: Announcer, waiting: Callable[[str], None], apart: ApiProcess
    ) -> None:
        """Run an engine that has its API beside it."""
        if not self.settings.is_embedded:
            # A server's database may be waited for by both.
            apart.open()
        async with wiring.service(self.settings, waiting=waiting) as service:
            facts = _facts(service)
            apart.attach(facts)
            apart.open()
            self.vitals.look = lambda: [*facts.vital(), apart.check()]
            announcer.look = lambda: apart.standing(
                supervisor_status.of_engine(service.engine, service.ticker)
            )
            await wiring.run(service)

    def _ready(self, stack: ExitStack) -> None:
        """Leave our address where commands on this machine look for it, if they can ask us."""
        if self.sock is None or self.linked is not None:
            return
        if self.role is not Role.ENGINE:
            stack.enter_context(_card(self.settings, self.sock))
        # Said when commands find us: whoever reads it may ask at once.
        log.info("listening", address=address_of(self.sock))


@dataclass(frozen=True, slots=True)
class _Told:
    """The facts that an engine's own listener shows."""

    facts: EngineFacts
    counted: Metrics
    vitals: Vitals


def _facts(service: wiring.Service) -> Process:
    return Process(
        ctx=service.ctx,
        settings=service.settings,
        engine=service.engine,
        prober=lambda: service.prober.stats,
        ticker=service.ticker,
    )


@contextmanager
def _signals(stopping: asyncio.Event) -> Iterator[None]:
    """Let SIGTERM and SIGINT end the process in order."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


@contextmanager
def _card(settings: Settings, sock: socket.socket) -> Iterator[None]:
    """Leave our address where commands on this machine look for it."""
    certificate = settings.server.tls_certificate
    card = address.Card(
        url=f"{'http' if certificate is None else 'https'}://{_reachable(address_of(sock))}",
        pid=os.getpid(),
        certificate=None if certificate is None else str(certificate.absolute()),
        token_file=None if settings.server.token_file is None else str(settings.server.token_file),
    )
    try:
        address.write(settings.state_dir, card)
    except OSError as error:
        raise ConfigError(f"state_dir = {settings.state_dir}: {error.strerror}") from None
    try:
        yield
    finally:
        address.remove(settings.state_dir, card.pid)


def _reachable(listen: str) -> str:
    """Return the address with "anywhere" replaced by loopback: nobody can connect to 0.0.0.0."""
    return listen.replace("0.0.0.0:", "127.0.0.1:").replace("[::]:", "[::1]:")
