"""Kept connections: what happens to a socket between two checks of the same target."""

from __future__ import annotations

import select
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    import socket

    from yaffle.prober.loop import Loop

_USED_UP: Final = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLERR | select.EPOLLHUP


class Owner(Protocol):
    """Originator of an attempt."""

    idle: IdleSocket | None

    def attempt_ended(self, code: str, what: str, took_us: int) -> None:
        """Receive the end of an attempt, once, after the connection is closed or kept."""
        ...


class IdleSocket:
    """A kept connection between two checks; any event on it means that it is of no more use."""

    __slots__ = ("_loop", "_owner", "sock")

    def __init__(self, loop: Loop, owner: Owner, sock: socket.SocketType) -> None:
        self._loop = loop
        self._owner = owner
        self.sock = sock
        loop.handlers[sock.fileno()] = self
        loop.idle_sockets += 1

    def on_event(self, mask: int) -> None:
        """The server closed it, or sent what nobody asked for."""
        if mask & _USED_UP:
            self.drop()

    def drop(self) -> None:
        """Close it."""
        self._loop.sockets.close(self.take())

    def take(self) -> socket.SocketType:
        """Hand over the socket for another attempt."""
        self._owner.idle = None
        self._loop.idle_sockets -= 1
        return self.sock
