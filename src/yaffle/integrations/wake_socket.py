"""A socket at which somebody says that something has happened, and not what: whoever hears it looks."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Final

import structlog

log = structlog.get_logger()

EVERYBODY: Final = 0o666
"""A word is worth a look, and nothing else comes of it."""


class WakeSocket:
    """A datagram socket with a name; what is sent to it is not read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._woken = asyncio.Event()
        self._transport: asyncio.DatagramTransport | None = None
        self._fault = ""

    async def word(self) -> None:
        """Wait for a word since the last call; for ever where it cannot listen."""
        if self._transport is None or self._transport.is_closing() or not self._path.is_socket():
            await self._listen()
        await self._woken.wait()
        self._woken.clear()

    async def _listen(self) -> None:
        self.close()
        loop = asyncio.get_running_loop()
        try:
            self._transport, _ = await loop.create_datagram_endpoint(
                lambda: _Words(self._woken),
                local_addr=str(self._path),
                family=socket.AF_UNIX,
            )
            self._path.chmod(EVERYBODY)
        except OSError as error:
            if str(error) != self._fault:
                log.warning("nothing wakes it", path=str(self._path), reason=str(error))
            self._fault = str(error)
        else:
            self._fault = ""

    def close(self) -> None:
        """Listen no more."""
        if self._transport is not None:
            self._transport.close()
            self._transport = None


class _Words(asyncio.DatagramProtocol):
    def __init__(self, woken: asyncio.Event) -> None:
        self._woken = woken

    def datagram_received(self, data: bytes, addr: object) -> None:
        self._woken.set()
