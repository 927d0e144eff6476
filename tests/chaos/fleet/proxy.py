"""TCP proxies of our own between one engine and what it needs: each can be cut, stalled or made to lie.

A real network fails one-sidedly and silently; a server that is stopped does not. So every engine has
its own proxy to the database, and one engine's network can fail while the others' is well.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from enum import StrEnum

ANSWER_S = 60.0
LINGER_0 = struct.pack("ii", 1, 0)


class Mode(StrEnum):
    """How a proxy treats what passes through it."""

    OPEN = "open"
    STALL = "stall"
    """Nothing passes; what was sent arrives, late, when it is open again."""
    MUTE = "mute"
    """Requests arrive, answers are lost: a commit happens and nobody is told."""
    HOLE = "hole"
    """Whatever is sent is swallowed; connections made before are dead when it is open again."""
    REFUSE = "refuse"
    """Connections are reset, and new ones too."""
    SLOW = "slow"
    """Every chunk takes its time."""


SLOW_S = 0.05


class Proxy:
    """One listening port; made by `Network.proxy`. What passes is not awaited: that would be slow."""

    def __init__(self, upstream: tuple[str, int]) -> None:
        self.upstream = upstream
        self.address = ("", 0)
        self.mode = Mode.OPEN
        self._links: set[_Link] = set()
        self._server: asyncio.Server | None = None
        self._dials: set[asyncio.Task[None]] = set()

    async def serve(self, host: str) -> None:
        """Listen from now on."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accepted, host, 0)
        self.address = self._server.sockets[0].getsockname()[:2]

    def _accepted(self) -> _Side:
        link = _Link(self)
        self._links.add(link)
        return link.client

    def dial(self, link: _Link) -> None:
        """Connect a link to the server, if the mode lets it through."""
        if self.mode is Mode.REFUSE:
            link.cut()
        elif self.mode not in {Mode.STALL, Mode.HOLE}:
            link.dialled = True
            task = asyncio.get_running_loop().create_task(self._dial(link))
            self._dials.add(task)
            task.add_done_callback(self._dials.discard)

    async def _dial(self, link: _Link) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: link.server, *self.upstream)
        except OSError:
            link.cut()

    def forget(self, link: _Link) -> None:
        """One of the two has gone."""
        self._links.discard(link)

    async def turn(self, mode: Mode) -> None:
        """Behave so from now on."""
        spoilt = self.mode in {Mode.MUTE, Mode.HOLE} and mode is not self.mode
        self.mode = mode
        if spoilt or mode is Mode.REFUSE:
            await self.reset()
        for link in tuple(self._links):
            link.flush()

    async def reset(self) -> None:
        """Reset every connection, once."""
        for link in tuple(self._links):
            link.cut()

    async def close(self) -> None:
        """End it and every connection."""
        if self._server is not None:
            self._server.close()
        await self.reset()
        while self._links or self._dials:
            await asyncio.sleep(0.01)


class _Link:
    """Two connections that are one."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.client = _Side(self)
        self.server = _Side(self)
        self.dialled = False
        self._over = False

    def other(self, side: _Side) -> _Side:
        return self.server if side is self.client else self.client

    def began(self, side: _Side) -> None:
        if side is self.client:
            self.proxy.dial(self)
        else:
            self.flush()

    def took(self, side: _Side, data: bytes) -> None:
        """Pass on what one side has sent, or do not."""
        mode = self.proxy.mode
        if mode is Mode.HOLE or (mode is Mode.MUTE and side is self.server):
            return
        sink = self.other(side)
        if mode is Mode.SLOW:
            asyncio.get_running_loop().call_later(SLOW_S, sink.send, data)
        elif mode is Mode.STALL:
            sink.waiting.append(data)
        else:
            sink.send(data)

    def flush(self) -> None:
        """Let through what has waited, once it may."""
        if self.proxy.mode is Mode.STALL:
            return
        if self.server.transport is None:
            if not (self.dialled or self._over) and self.client.transport is not None:
                self.proxy.dial(self)
            return
        self.client.send(b"")
        self.server.send(b"")

    def cut(self) -> None:
        """End both sides with a reset."""
        self._over = True
        for side in (self.client, self.server):
            if side.transport is not None:
                sock = side.transport.get_extra_info("socket")
                with contextlib.suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_0)
                side.transport.abort()
        if self.client.transport is None:
            self.proxy.forget(self)

    def ended(self, side: _Side) -> None:
        side.transport = None
        self._over = True
        other = self.other(side).transport
        if other is None:
            self.proxy.forget(self)
        else:
            other.close()


class _Side(asyncio.Protocol):
    def __init__(self, link: _Link) -> None:
        self._link = link
        self.transport: asyncio.Transport | None = None
        self.waiting: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._link.began(self)

    def data_received(self, data: bytes) -> None:
        self._link.took(self, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._link.ended(self)

    def send(self, data: bytes) -> None:
        """Send what has waited, then this; keep it while there is no connection yet."""
        if data:
            self.waiting.append(data)
        if self.transport is not None and self.waiting:
            self.transport.write(b"".join(self.waiting))
            self.waiting.clear()


class Network:
    """A thread with a loop of its own that runs all proxies of one fleet."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._proxies: list[Proxy] = []
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)
        self._thread.start()

    def proxy(self, upstream: tuple[str, int], *, host: str = "127.0.0.1") -> Proxy:
        """Return a new, open proxy that listens on a free port of `host`."""
        made = Proxy(upstream)
        self._proxies.append(made)
        self._do(made.serve(host))
        return made

    def turn(self, proxy: Proxy, mode: Mode) -> None:
        """Set a proxy's mode; it is in force when this returns."""
        self._do(proxy.turn(mode))

    def reset(self, proxy: Proxy) -> None:
        """Reset the connections of a proxy, once."""
        self._do(proxy.reset())

    def _do(self, work) -> None:  # type: ignore[no-untyped-def]
        asyncio.run_coroutine_threadsafe(work, self._loop).result(ANSWER_S)

    def close(self) -> None:
        """End every connection and the thread."""
        for proxy in self._proxies:
            with contextlib.suppress(TimeoutError):
                self._do(proxy.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(ANSWER_S)
        self._loop.close()


@contextlib.contextmanager
def network() -> Iterator[Network]:
    """Yield a network, and leave nothing of it behind."""
    made = Network()
    try:
        yield made
    finally:
        made.close()
