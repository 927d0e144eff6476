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
from dataclasses import dataclass, field
from enum import StrEnum

CHUNK = 65536
ANSWER_S = 10.0
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


@dataclass(eq=False)
class Proxy:
    """One listening port; made by `Network.proxy`."""

    upstream: tuple[str, int]
    address: tuple[str, int] = ("", 0)
    mode: Mode = Mode.OPEN
    _links: set[_Link] = field(default_factory=set)
    _gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, host: str) -> None:
        """Listen until cancelled."""
        self._gate.set()
        server = await asyncio.start_server(self._accept, host, self.address[1])
        self.address = server.sockets[0].getsockname()[:2]

    async def _accept(self, down: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        link = _Link(self, down, back)
        self._links.add(link)
        try:
            await link.run()
        finally:
            link.cut()
            self._links.discard(link)

    async def turn(self, mode: Mode) -> None:
        """Behave so from now on."""
        spoilt = self.mode in {Mode.MUTE, Mode.HOLE} and mode is not self.mode
        self.mode = mode
        if spoilt or mode is Mode.REFUSE:
            await self.reset()
        if mode is Mode.STALL:
            self._gate.clear()
        else:
            self._gate.set()

    async def reset(self) -> None:
        """Reset every connection, once."""
        for link in tuple(self._links):
            link.cut()

    async def passing(self) -> None:
        """Wait until anything may pass."""
        await self._gate.wait()
        if self.mode is Mode.SLOW:
            await asyncio.sleep(SLOW_S)


@dataclass(eq=False)
class _Link:
    proxy: Proxy
    down: asyncio.StreamReader
    back: asyncio.StreamWriter
    upward: asyncio.StreamWriter | None = None

    async def run(self) -> None:
        await self.proxy.passing()
        while self.proxy.mode is Mode.HOLE:
            if not await self.down.read(CHUNK):
                return
        if self.proxy.mode is Mode.REFUSE:
            return
        with contextlib.suppress(OSError):
            up, self.upward = await asyncio.open_connection(*self.proxy.upstream)
            async with asyncio.TaskGroup() as group:
                there = group.create_task(self._pump(self.down, self.upward, answers=False))
                here = group.create_task(self._pump(up, self.back, answers=True))
                await asyncio.wait({there, here}, return_when=asyncio.FIRST_COMPLETED)
                there.cancel()
                here.cancel()

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(CHUNK):
                await self.proxy.passing()
                mode = self.proxy.mode
                if mode is Mode.HOLE or (mode is Mode.MUTE and answers):
                    continue
                sink.write(data)
                await sink.drain()

    def cut(self) -> None:
        """End both sides with a reset."""
        for writer in (self.back, self.upward):
            if writer is None:
                continue
            sock = writer.get_extra_info("socket")
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_0)
            writer.transport.abort()


class Network:
    """A thread with a loop of its own that runs all proxies of one fleet."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)
        self._thread.start()

    def proxy(self, upstream: tuple[str, int], *, host: str = "127.0.0.1") -> Proxy:
        """Return a new, open proxy that listens on a free port of `host`."""
        made = Proxy(upstream)
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

    async def _end(self) -> None:
        others = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.wait(others or [asyncio.create_task(asyncio.sleep(0))], timeout=ANSWER_S)

    def close(self) -> None:
        """End every connection and the thread."""
        with contextlib.suppress(TimeoutError):
            self._do(self._end())
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
