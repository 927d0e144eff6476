"""Accepts connections: a few in each turn of the loop, and a pause where accepting fails.

asyncio's own way takes as many as wait in one turn, and logs each failed attempt, by the hundreds.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import structlog

from yaffle.api.http.proxy_protocol import Caller, NoHeader, read_caller

if TYPE_CHECKING:
    from yaffle.api.http.connection import Connection

log = structlog.get_logger()

ACCEPTS: Final = 8
"""In one turn of the loop, which others share."""
REST_S: Final = 1.0
HANDSHAKE_S: Final = 10.0
"""For TLS, and as long for a PROXY header before it."""
HANDSHAKES_MAX: Final = 128
"""Under way at once; the oldest goes when there are more."""


class Listener:
    """Accepts on one listening socket until it is closed."""

    def __init__(
        self,
        sock: socket.socket,
        connection: Callable[[Caller | None], Connection],
        *,
        exhausted: Callable[[], None],
        tls: Callable[[], ssl.SSLContext] | None = None,
        announced: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`exhausted` frees what it can; `tls` is asked anew for each connection.

        `announced`: whether what comes from an address begins with a PROXY header.
        """
        self._sock = sock
        self._connection = connection
        self._exhausted = exhausted
        self._tls = tls
        self._announced = announced
        self._told_s = -REST_S
        self._loop = asyncio.get_running_loop()
        self._arriving: dict[asyncio.Task[None], None] = {}
        self._rest: asyncio.TimerHandle | None = None
        self._loop.add_reader(sock, self._accept)

    def close(self) -> None:
        """Accept no more."""
        if self._rest is not None:
            self._rest.cancel()
        self._loop.remove_reader(self._sock)
        for task in self._arriving:
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait for those who were arriving."""
        if self._arriving:
            await asyncio.wait(list(self._arriving))

    def _accept(self) -> None:
        for _ in range(ACCEPTS):
            try:
                sock, address = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # Out of descriptors or memory: it stays ready to be read, so asking at once would spin.
                log.error("cannot accept connections", error=str(error))  # noqa: TRY400
                self._loop.remove_reader(self._sock)
                self._rest = self._loop.call_later(REST_S, self._resume)
                self._exhausted()
                return
            if len(self._arriving) >= HANDSHAKES_MAX:
                next(iter(self._arriving)).cancel()
            # Owned by this listener, which ends it; there is no group that lives as long.
            task = self._loop.create_task(self._arrive(sock, address[0]), name="arriving")
            self._arriving[task] = None
            task.add_done_callback(self._arrived)

    def _resume(self) -> None:
        self._rest = None
        self._loop.add_reader(self._sock, self._accept)

    async def _arrive(self, sock: socket.socket, peer: str) -> None:
        context = None if self._tls is None else self._tls()
        try:
            # Who goes before the end of a handshake is not worth a line.
            with suppress(OSError, TimeoutError):
                caller = await self._caller(sock) if self._announced(peer) else None
                await self._loop.connect_accepted_socket(
                    lambda: self._connection(caller),
                    sock,
                    ssl=context,
                    ssl_handshake_timeout=None if context is None else HANDSHAKE_S,
                )
                return
        except NoHeader as fault:
            self._warn(peer, fault)
        except asyncio.CancelledError:
            sock.close()
            raise
        sock.close()

    async def _caller(self, sock: socket.socket) -> Caller | None:
        """Return whom the proxy speaks for, as its header says."""

        async def read(count: int) -> bytes:
            found = b""
            while len(found) < count and (piece := await receive(sock, count - len(found))):
                found += piece
            return found

        receive = self._loop.sock_recv
        sock.setblocking(False)
        async with asyncio.timeout(HANDSHAKE_S):
            return await read_caller(read)

    def _warn(self, peer: str, fault: NoHeader) -> None:
        """Tell of a proxy that is set up differently, once a second at most."""
        if self._loop.time() >= self._told_s + REST_S:
            self._told_s = self._loop.time()
            log.warning("trusted proxy sent no PROXY header", proxy=peer, reason=str(fault))

    def _arrived(self, task: asyncio.Task[None]) -> None:
        self._arriving.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            log.error("a connection failed", error=repr(task.exception()))
