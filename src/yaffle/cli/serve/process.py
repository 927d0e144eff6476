"""The life of the server process: bind, open, announce, run until a signal, close in order."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import structlog

from yaffle import wiring
from yaffle.api.app import create_app
from yaffle.api.doctor import Doctor
from yaffle.api.identity import read_identity
from yaffle.api.parts import Parts
from yaffle.api.server import address_of, bind
from yaffle.api.server import serve as serve_http
from yaffle.cli import address
from yaffle.cli.serve import systemd
from yaffle.engine.clock import SystemClock
from yaffle.engine.queries import Queries
from yaffle.engine.why import Why
from yaffle.errors import ConfigError

if TYPE_CHECKING:
    import socket

    from yaffle.config import Settings

log = structlog.get_logger()


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT; raise what ended it otherwise."""
    # Refused for being open to strangers, it leaves nothing behind.
    read_identity(settings.server, SystemClock())
    # The port first: a second server is turned away before it touches anything.
    sock = bind(settings.server.listen)
    try:
        asyncio.run(_live(settings, sock))
    finally:
        sock.close()


async def _live(settings: Settings, sock: socket.socket) -> None:
    supervisor = systemd.from_here()
    stopping = asyncio.Event()
    with _signals(stopping):
        async with wiring.service(settings) as service:
            app = create_app(_parts(service, settings))
            with _card(settings, sock):
                async with asyncio.TaskGroup() as group:
                    tasks = [
                        group.create_task(wiring.run(service), name="engine"),
                        group.create_task(serve_http(app, sock), name="api"),
                        group.create_task(supervisor.keep(service.kit.clock), name="watchdog"),
                    ]
                    supervisor.tell(f"READY=1\nSTATUS=listening on {address_of(sock)}")
                    await stopping.wait()
                    log.info("stopping", nodes="keep running")
                    supervisor.tell("STOPPING=1")
                    for task in tasks:
                        task.cancel()
    log.info("stopped")


def _parts(service: wiring.Service, settings: Settings) -> Parts:
    kit = service.kit
    return Parts(
        commands=service.commands,
        queries=Queries(kit),
        why=Why(kit, service.engine.memory_of),
        metrics=kit.metrics,
        doctor=Doctor(
            kit=kit, engine=service.engine, settings=settings, prober=lambda: service.prober.stats
        ),
        server=settings.server,
        state_dir=settings.state_dir,
        public_url=settings.receivers.public_url,
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
    card = address.Card(
        url=f"http://{_reachable(address_of(sock))}",
        pid=os.getpid(),
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
