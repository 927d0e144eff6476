"""The life of a server process: bind, open, announce, run until a signal, close in order.

    bind ─▶ listen ─▶ open the database (a server that is away is waited for) ─▶ run ─▶ signal
    ─▶ no new requests, those under way end ─▶ the engine gives its leases back ─▶ close the database

`serve` is an API and an engine in one process, `engine` and `api` are one of them alone; all three
live this one life.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

import structlog

from yaffle import wiring
from yaffle.api.audit import Audit
from yaffle.api.entrance import Entrance
from yaffle.api.parts import Parts, parts_of
from yaffle.api.room import raise_files
from yaffle.api.server import address_of, bind
from yaffle.api.server import serve as serve_http
from yaffle.api.tls import Certificates, read_certificates
from yaffle.api.vitals import Vitals
from yaffle.cli import address
from yaffle.cli.serve import standing, systemd
from yaffle.cli.serve.standing import Announcer
from yaffle.config import OFF
from yaffle.engine import garbage
from yaffle.engine.clock import SystemClock
from yaffle.errors import ConfigError

if TYPE_CHECKING:
    from yaffle.config import ServerSettings, Settings

log = structlog.get_logger()


NOWHERE: Final = "127.0.0.1:0"
"""Stands for the address of a process that does not listen."""


class Role(Enum):
    """Which of the commands this process runs."""

    SERVE = "serve"
    ENGINE = "engine"
    API = "api"


def run(settings: Settings, role: Role) -> None:
    """Live until SIGTERM or SIGINT; raise what ended it otherwise."""
    if role is not Role.SERVE and settings.is_embedded:
        raise ConfigError(
            f"database.url = {settings.database_url}: one process alone holds an SQLite file, so"
            f" `yaffle {role.value}` cannot share it; run `yaffle serve`, which is API and engine in"
            " one, or keep the state in PostgreSQL or MariaDB (postgresql://USER:PASSWORD@HOST/NAME)"
        )
    listening = _listening(settings, role)
    # Refused for being open to strangers, it leaves nothing behind.
    vitals = Vitals(
        description=f"yaffle-{role.value}",
        host=socket.gethostname(),
        ttl_s=settings.healthcheck.ttl,
    )
    entrance = Entrance(listening, clock=SystemClock(), vitals=vitals)
    certificates = read_certificates(listening)
    # The port first: a second server is turned away before it touches anything.
    setting = "engine.listen" if role is Role.ENGINE else "server.listen"
    silent = role is Role.ENGINE and settings.engine.listen == OFF
    sock = None if silent else bind(listening.listen, setting=setting)
    garbage.calm()
    if not settings.local_process.enabled:
        # Nodes would inherit it, and some programs do not live with more than 1024.
        raise_files()
    try:
        with _audit(settings, role, entrance):
            asyncio.run(_Life(settings, role, entrance, vitals, sock, certificates).live())
    finally:
        if sock is not None:
            sock.close()


@contextmanager
def _audit(settings: Settings, role: Role, entrance: Entrance) -> Iterator[None]:
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


@dataclass(frozen=True, slots=True)
class _Life:
    settings: Settings
    role: Role
    entrance: Entrance
    vitals: Vitals
    sock: socket.socket | None
    certificates: Certificates | None

    async def live(self) -> None:
        """Start what listens and what works; end them in the order of the module's drawing."""
        supervisor = systemd.from_here()
        stopping = asyncio.Event()
        with ExitStack() as stack:
            stack.enter_context(_signals(stopping))
            stack.enter_context(self.vitals.open(self.settings.healthcheck))
            announcer = Announcer(
                supervisor,
                prefix="" if self.sock is None else f"listening on {address_of(self.sock)}; ",
                on_ready=lambda: self._leave_card(stack),
            )
            async with asyncio.TaskGroup() as group:
                front = [] if self.sock is None else [self._http(self.sock)]
                asked = [group.create_task(each, name="http") for each in front]
                work = group.create_task(self._work(announcer), name="work")
                says = group.create_task(announcer.run(), name="announcer")
                signs = [
                    group.create_task(supervisor.keep(SystemClock()), name="watchdog"),
                    group.create_task(self.vitals.keep(SystemClock()), name="vitals"),
                ]
                if self.certificates is not None:
                    keeping = self.certificates.keep(SystemClock())
                    signs.append(group.create_task(keeping, name="certificates"))
                await stopping.wait()
                # Before anything: what ends is not ready any more, and listens nowhere.
                says.cancel()
                log.info("stopping", nodes="keep running")
                supervisor.tell("STOPPING=1")
                for task in (says, *asked, work, *signs):
                    task.cancel()
                    await asyncio.wait([task])
        log.info("stopped")

    async def _work(self, announcer: Announcer) -> None:
        """Open the database, admit those who ask, and run what there is to run."""

        def waiting(fault: str) -> None:
            if self.entrance.fault != fault:
                log.warning("waiting for the database", error=fault)
            self.entrance.fault = fault
            announcer.look = lambda: standing.waiting(fault)

        if self.role is Role.API:
            await self._front(announcer, waiting)
        else:
            await self._engine(announcer, waiting)

    async def _front(self, announcer: Announcer, waiting: Callable[[str], None]) -> None:
        async with wiring.front(self.settings, waiting=waiting) as front:
            parts = parts_of(
                kit=front.kit,
                commands=front.commands,
                settings=self.settings,
                ticker=front.ticker,
                vitals=self.vitals,
            )
            self.entrance.admit(parts)
            announcer.look = lambda: standing.of_api(front.ticker)
            await _beside(parts, front.ticker.run())

    async def _engine(self, announcer: Announcer, waiting: Callable[[str], None]) -> None:
        async with wiring.service(self.settings, waiting=waiting) as service:
            parts = _parts(service, self.vitals)
            if self.role is Role.SERVE:
                self.entrance.admit(parts)
            else:
                self.entrance.admit_probes(parts)
            announcer.look = lambda: standing.of_engine(service.engine, service.ticker)
            await _beside(parts, wiring.run(service))

    def _http(self, sock: socket.socket) -> Coroutine[object, object, None]:
        tls = None if self.certificates is None else self.certificates.context
        return serve_http(self.entrance, sock, self.settings.server, tls=tls)

    def _leave_card(self, stack: ExitStack) -> None:
        """Leave our address where commands on this machine look for it, if they can ask us."""
        if self.sock is None:
            return
        if self.role is not Role.ENGINE:
            stack.enter_context(_card(self.settings, self.sock))
        # Said when commands find us: whoever reads it may ask at once.
        log.info("listening", address=address_of(self.sock))


async def _beside(parts: Parts, work: Coroutine[object, object, None]) -> None:
    """Do the work, and beside it what the API has left to do for those who asked."""
    async with asyncio.TaskGroup() as group:
        group.create_task(work, name="work")
        if parts.trusts is not None:
            group.create_task(parts.trusts.run(), name="trusts")


def _parts(service: wiring.Service, vitals: Vitals) -> Parts:
    return parts_of(
        kit=service.kit,
        engine=service.engine,
        commands=service.commands,
        settings=service.settings,
        prober=lambda: service.prober.stats,
        ticker=service.ticker,
        vitals=vitals,
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
