"""Listening: the socket is bound before anything else starts, and signals stay with their owner."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, cast

import structlog
import uvicorn

from yaffle.api.http.client_shares import Proxies
from yaffle.api.http.connection import Connection, Deadlines
from yaffle.api.http.connection_limits import Limits, Room, files_max
from yaffle.api.http.listener import Listener
from yaffle.api.http.request_lanes import Turnstile
from yaffle.config import ServerSettings, is_loopback, split_address
from yaffle.errors import ConfigError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from yaffle.api.http.proxy_protocol import Caller

log = structlog.get_logger()

BACKLOG: Final = 512
FREED: Final = 16
"""Connections that end where the process has run out of descriptors."""
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
    """Leaves signals to whoever runs the whole process, and accepting to `Listener`."""

    def __init__(
        self,
        config: uvicorn.Config,
        sock: socket.socket,
        room: Room,
        tls: Callable[[], ssl.SSLContext] | None,
        deadlines: Deadlines,
        announced: Callable[[str], bool],
    ) -> None:
        super().__init__(config)
        self._deadlines = deadlines
        self._announced = announced
        self._sock = sock
        self._room = room
        self._tls = tls

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture nothing."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        await self.lifespan.startup()
        listener = Listener(
            self._sock,
            self._connection,
            exhausted=lambda: self._room.make_room(FREED),
            tls=self._tls,
            announced=self._announced,
        )
        # What uvicorn does with them at the end is what a listener can do: close, and wait for that.
        self.servers = [cast("asyncio.Server", listener)]
        self.started = True

    def _connection(self, caller: Caller | None) -> Connection:
        return Connection(
            self.config,
            self.server_state,
            asyncio.get_running_loop(),
            room=self._room,
            deadlines=self._deadlines,
            caller=caller,
        )


async def serve(
    app: ASGIApp,
    sock: socket.socket,
    settings: ServerSettings | None = None,
    *,
    tls: Callable[[], ssl.SSLContext] | None = None,
    deadlines: Deadlines | None = None,
) -> None:
    """Serve until cancelled; then requests under way may end, for `STOP_S` at most."""
    settings = settings or ServerSettings()
    deadlines = deadlines or Deadlines()
    limits = Limits.within(settings.connections, settings.connections_of_peer, files_max())
    proxies = Proxies(settings.trusted_proxies)
    room = Room(limits, shares=lambda peer: is_loopback(peer) or peer in proxies)
    config = uvicorn.Config(
        Turnstile(app, proxies),
        # On purpose: h11 bounds the size of headers, which the C parser does not, and `framing` makes
        # it refuse what can be read in two ways.
        http="h11",
        h11_max_incomplete_event_size=HEADERS_MAX,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=int(deadlines.idle_s),
        timeout_graceful_shutdown=int(STOP_S),
    )
    announced = proxies.__contains__ if settings.proxy_protocol else lambda _: False
    server = _Server(config, sock, room, tls, deadlines, announced)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(server.serve(sockets=[sock]), name="http")
        keeping = group.create_task(room.keep(), name="room")
        try:
            # `wait` lets a cancellation through to us without cancelling the server.
            await asyncio.wait([running])
        finally:
            server.should_exit = True
            await asyncio.wait([running], timeout=STOP_S + 2)
            keeping.cancel()
            sock.close()
