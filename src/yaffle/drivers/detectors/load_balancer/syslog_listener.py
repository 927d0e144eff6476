"""Socket that HAProxy logs to: bound while somebody listens, read at a pace that is ours.

What comes faster than that is left in the kernel's buffer, and what finds no room there is lost:
nobody can fill our memory or our time. Loss is no harm, because polls find the same. A path that a
process left behind is taken over, one that a process still reads never is.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import stat
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from yaffle.drivers.detectors.load_balancer.syslog_parser import LINE_MAX

if TYPE_CHECKING:
    from yaffle.drivers.detectors.load_balancer.settings import Socket
    from yaffle.ports.clock import Clock

log = structlog.get_logger(__name__)

BURST: Final = 256
"""Datagrams that are read before others have their turn; with `PACE_S` some 5,000 a second at most."""
PACE_S: Final = 0.05
TURN: Final = 16
"""Each time that we look counts for so many: who sends them singly must not keep us busy with that."""
BUFFER_BYTES: Final = 1_048_576
"""Asked of the system, which may give less: a thousand servers may go down at once."""
AGAIN_S: Final = 2.0
"""After a place was not to be had; and so often we look whether our path is still our path."""
MODE: Final = 0o660
_ANCILLARY: Final = 64
_DROPS: Final = getattr(socket, "SO_RXQ_OVFL", 40)
"""Linux: each datagram says how many were dropped before it; Python knows no name for it."""


class SyslogListener:
    """Hands every datagram that may be a line to `hear`; owned by one task, `run`."""

    def __init__(
        self,
        place: Socket,
        senders: tuple[IPv4Network | IPv6Network, ...],
        *,
        clock: Clock,
        hear: Callable[[bytes], None],
        counts: Counter[str],
    ) -> None:
        self.place = place
        self.fault = "it has not begun to listen"
        """Why nothing can be heard; empty while listening."""
        self._senders, self._clock, self._hear, self._counts = senders, clock, hear, counts
        self._dropped = 0

    async def run(self) -> None:
        """Listen until cancelled; a place that is not to be had is tried again for ever."""
        while True:
            try:
                with _bound(self.place) as sock:
                    await self._listen(sock)
            except OSError as error:
                reason = error.strerror or type(error).__name__
            else:
                reason = "its path was taken away"
            if reason != self.fault:
                log.warning("not listening", place=self.place.words, reason=reason)
            self.fault = reason
            await self._clock.sleep(AGAIN_S)

    async def _listen(self, sock: socket.socket) -> None:
        """Return when our path is no longer ours."""
        mine = _identity(self.place.path)
        try:
            log.info("listening", place=self.place.words)
            self.fault, self._dropped = "", 0
            left, at_s = float(BURST), self._clock.monotonic_s()
            while _identity(self.place.path) == mine:
                if not await _readable(sock):
                    continue
                now_s = self._clock.monotonic_s()
                left, at_s = min(BURST, left + (now_s - at_s) * BURST / PACE_S), now_s
                left -= max(TURN, self._read(sock, int(left)))
                if left < TURN:
                    await self._clock.sleep(PACE_S)
        finally:
            if mine is not None and _identity(self.place.path) == mine:
                _remove(self.place.path)

    def _read(self, sock: socket.socket, most: int) -> int:
        """Read what there is; return how many it were."""
        for count in range(most):
            try:
                data, ancillary, flags, sender = sock.recvmsg(LINE_MAX, _ANCILLARY)
            except BlockingIOError:
                return count
            for level, kind, number in ancillary:
                if (level, kind) == (socket.SOL_SOCKET, _DROPS):
                    self._count_dropped(int.from_bytes(number[:4], sys.byteorder))
            if flags & socket.MSG_TRUNC:
                self._counts["too_long"] += 1
            elif self._senders and not self._is_known(sender):
                self._counts["unexpected_sender"] += 1
            else:
                self._hear(data)
        return most

    def _count_dropped(self, total: int) -> None:
        # The kernel's count has 32 bits, and begins with the socket.
        self._counts["dropped"] += (total - self._dropped) % 2**32
        self._dropped = total

    def _is_known(self, sender: object) -> bool:
        if not isinstance(sender, tuple) or not sender:
            return False
        address: IPv4Address | IPv6Address = ip_address(str(sender[0]).partition("%")[0])
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self._senders)


def _bound(place: Socket) -> socket.socket:
    """Return a socket that is bound; raise OSError."""
    if place.path:
        return _bound_path(place.path)
    sock = socket.socket(
        socket.AF_INET6 if ":" in place.host else socket.AF_INET, socket.SOCK_DGRAM
    )
    try:
        sock.setblocking(False)
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, _DROPS, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        sock.bind((place.host, place.port))
    except OSError:
        sock.close()
        raise
    return sock


def _bound_path(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        _clear(path)
        sock.bind(path)
        Path(path).chmod(MODE)
    except OSError:
        sock.close()
        raise
    return sock


def _clear(path: str) -> None:
    """Take away a socket that nobody reads any more; raise OSError where something else is there."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise OSError(errno.EEXIST, "there is a file of that name, and it is no socket")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as trial:
        try:
            trial.connect(path)
        except ConnectionRefusedError:
            Path(path).unlink()
            return
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))


def _identity(path: str) -> tuple[int, int] | None:
    """Return which file a path is; None for none, and where there is no path."""
    try:
        found = os.lstat(path) if path else None
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if found is not None else None


def _remove(path: str) -> None:
    with suppress(OSError):
        Path(path).unlink()


async def _readable(sock: socket.socket) -> bool:
    """Wait for a datagram, a while; return whether there is one."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_reader(sock.fileno(), _resolve, ready)
    try:
        async with asyncio.timeout(AGAIN_S):
            await ready
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(sock.fileno())
    return True


def _resolve(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
