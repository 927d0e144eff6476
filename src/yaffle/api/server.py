"""Listening: the socket is bound before anything else starts, and signals stay with their owner."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import structlog
import uvicorn

from yaffle.config import split_address
from yaffle.errors import ConfigError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

log = structlog.get_logger()

BACKLOG: Final = 512
CONNECTIONS_MAX: Final = 1024
STOP_S: Final = 3.0
"""Requests under way get this long to end; nothing of ours takes longer but a slow database."""
HEADERS_MAX: Final = 64 * 1024


def bind(listen: str, *, setting: str = "server.listen") -> socket.socket:
    """Return a listening socket; raise ConfigError naming --listen when that cannot be."""
    host, port = split_address(listen)
    try:
        found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICSERV
        )
        family, kind, proto, _, address = found[0]
        sock = socket.socket(family, kind | socket.SOCK_CLOEXEC, proto)
    except OSError as error:
        raise ConfigError(f"--listen {listen} ({setting}): {error.strerror}") from None
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise ConfigError(f"--listen {listen} ({setting}): {_why(error)}") from None
    return sock


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "something listens there already; stop it or choose another port"
    return error.strerror or str(error)


def address_of(sock: socket.socket) -> str:
    """Return `HOST:PORT` where the socket really listens (port 0 has become a number)."""
    host, port = sock.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class _Server(uvicorn.Server):
    """Leaves signals to whoever runs the whole process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture nothing."""
        yield


async def serve(app: ASGIApp, sock: socket.socket) -> None:
    """Serve until cancelled; then requests under way may end, for `STOP_S` at most."""
    server = _Server(
        uvicorn.Config(
            app,
            # h11 bounds the size of headers; the C parser does not.
            http="h11",
            h11_max_incomplete_event_size=HEADERS_MAX,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=CONNECTIONS_MAX,
            backlog=BACKLOG,
            timeout_keep_alive=15,
            timeout_graceful_shutdown=int(STOP_S),
        )
    )
    async with asyncio.TaskGroup() as group:
        running = group.create_task(server.serve(sockets=[sock]), name="http")
        try:
            # `wait` lets a cancellation through to us without cancelling the server.
            await asyncio.wait([running])
        finally:
            server.should_exit = True
            await asyncio.wait([running], timeout=STOP_S + 2)
            sock.close()
