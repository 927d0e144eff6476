"""The one thread: accepts, reads, answers and closes, within limits that hold against anybody.

At most `connections_max` are open: one more throws out the one that has been silent longest. Each has
`timeout_s` in all, from accept to close, whatever it trickles. All have the same, so the order in
which they came is the order in which they run out, and no timer is needed.
"""

from __future__ import annotations

import _socket
import dataclasses
import os
import select
import time
from collections.abc import Callable, Sequence
from typing import Final

from yaffle_health.server.calls import Calls, plain_accept
from yaffle_health.server.held import Descriptor, held
from yaffle_health.server.responder import Reply, Responder

ACCEPTS_MAX: Final = 64
"""Connections taken from one listener in a row, so that a flood is not one long stretch of work."""
DRAIN_MAX: Final = 256 * 1024
"""Bytes thrown away after an answer, before the connection is closed with more to come."""
PAUSE_S: Final = 0.25
"""How long nothing is accepted after the process ran out of descriptors or memory."""
_ERROR: Final = select.EPOLLERR | select.EPOLLHUP


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a client may take."""

    connections_max: int = 32
    timeout_s: float = 5.0


@dataclasses.dataclass(frozen=True, slots=True)
class Ticker:
    """Something small to do every so often, which never raises and never waits.

    `call` returns in how many seconds it wants to be called again, None for never.
    """

    call: Callable[[], float | None]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Listener:
    """A listening socket; `shared` with processes that may change it under us."""

    socket: _socket.socket
    shared: bool = False


class _Connection:
    """One client between two events."""

    __slots__ = ("deadline", "drained", "draining", "fd", "received", "to_send")

    def __init__(self, fd: int, deadline: float) -> None:
        self.fd, self.deadline = fd, deadline
        self.received = b""
        self.to_send = b""
        self.draining = False
        self.drained = 0


class Loop:
    """Serves those listeners until it is told to stop; `run` is the thread.

    Made by `held.open`: a forked child closes it, and whatever is opened or closed here is so under
    the lock that a fork waits for.
    """

    def __init__(
        self,
        listeners: Sequence[Listener],
        responder: Responder,
        *,
        limits: Limits,
        calls: Calls,
        poll: select.epoll,
        tickers: Sequence[Ticker] = (),
    ) -> None:
        self._listeners = {listener.socket.fileno(): listener for listener in listeners}
        self._responder, self._limits = responder, limits
        self._calls, self._poll = calls, poll
        self._open: dict[int, _Connection] = {}
        self._in_hand = -1
        self._wake = Descriptor(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
        self._stopping = False
        self._paused_until: float | None = None
        self._watched: dict[int, Callable[[], None]] = {}
        now = time.monotonic()
        self._tickers = [(now, ticker) for ticker in tickers]
        poll.register(self._wake.fd, select.EPOLLIN)
        for fd in self._listeners:
            poll.register(fd, select.EPOLLIN)

    def watch(self, fd: int, call: Callable[[], None]) -> None:
        """Call that whenever this descriptor has something to say; only before `run`, or within."""
        self._watched[fd] = call
        self._poll.register(fd, select.EPOLLIN)

    def forget(self, fd: int) -> None:
        """Watch it no longer: before it is closed, and only before `run`, or within."""
        del self._watched[fd]
        self._poll.unregister(fd)

    def stop(self) -> None:
        """Ask the thread to end; any thread may, at any time."""
        # Under the lock, since the number of a closed descriptor may be somebody else's by now.
        with held.lock:
            if self._wake.fd >= 0:
                os.eventfd_write(self._wake.fd, 1)

    def run(self) -> None:
        """Serve, then close everything."""
        try:
            while not self._stopping:
                self._turn()
        finally:
            held.close(self)

    def close(self) -> None:
        """Close every descriptor: at the end, and in a forked child, which has no thread for them."""
        with held.lock:
            for fd in {*self._open, self._in_hand} - {-1}:
                self._calls.close(fd)
            self._open.clear()
            self._in_hand = -1
            for listener in self._listeners.values():
                held.close(listener.socket)
            self._listeners.clear()
            self._poll.close()
            self._wake.close()

    def _turn(self) -> None:
        events = self._poll.poll(self._timeout_s(time.monotonic()))
        now = time.monotonic()
        for fd, mask in events:
            if fd in self._listeners:
                self._accept(self._listeners[fd], now)
            elif fd in self._open:
                self._continue(self._open[fd], mask)
            elif fd == self._wake.fd:
                self._stopping = True
            elif fd in self._watched:
                self._watched[fd]()
        self._expire(now)
        self._tick(now)

    def _timeout_s(self, now: float) -> float | None:
        due = [at for at, _ in self._tickers]
        if self._open:
            due.append(next(iter(self._open.values())).deadline)
        if self._paused_until is not None:
            due.append(self._paused_until)
        # A whole millisecond late: epoll rounds down, and a turn too early would find nothing due.
        return max(0.0, min(due) - now) + 0.001 if due else None

    def _accept(self, listener: Listener, now: float) -> None:
        for number in range(ACCEPTS_MAX):
            if number and not listener.shared and not self._calls.more(listener.socket):
                return
            try:
                fd = self._take(listener)
            except OSError:
                # Out of descriptors or memory: the connection stays in the queue, and epoll would
                # report it again at once.
                self._pause(now)
                return
            if fd < 0:
                return
            self._welcome(fd, now)
            self._in_hand = -1

    def _take(self, listener: Listener) -> int:
        # A socket that others hold too may be made blocking by them: no direct call then, and no
        # lock, for which every fork would wait.
        if listener.shared:
            self._in_hand = plain_accept(listener.socket)
        else:
            with held.lock:
                self._in_hand = self._calls.accept(listener.socket)
        return self._in_hand

    def _welcome(self, fd: int, now: float) -> None:
        connection = _Connection(fd, now + self._limits.timeout_s)
        # The request is mostly there already, and then epoll need not hear of it.
        if self._advance(connection):
            with held.lock:
                self._in_hand = -1
                self._calls.close(fd)
            return
        if len(self._open) >= self._limits.connections_max:
            self._drop(self._most_silent())
        self._open[fd] = connection
        self._poll.register(fd, select.EPOLLOUT if connection.to_send else select.EPOLLIN)

    def _most_silent(self) -> _Connection:
        """The oldest that has not asked yet; if all have, the oldest."""
        waiting = (each for each in self._open.values() if not each.to_send and not each.draining)
        return next(waiting, next(iter(self._open.values())))

    def _continue(self, connection: _Connection, mask: int) -> None:
        if mask & _ERROR and not mask & select.EPOLLIN:
            self._drop(connection)
            return
        was_sending = bool(connection.to_send)
        if self._advance(connection):
            self._drop(connection)
        elif was_sending != bool(connection.to_send):
            events = select.EPOLLOUT if connection.to_send else select.EPOLLIN
            self._poll.modify(connection.fd, events)

    def _advance(self, connection: _Connection) -> bool:
        """Go on as far as it goes without waiting; True: this connection is done with."""
        try:
            if connection.to_send:
                return self._send(connection)
            if connection.draining:
                return self._drain(connection)
            return self._receive(connection)
        except OSError:
            return True

    def _receive(self, connection: _Connection) -> bool:
        data = self._calls.recv(connection.fd)
        if data is None:
            return False
        connection.received += data
        if not connection.received:
            return True
        reply = self._responder.reply(connection.received, ended=not data)
        # At the end of the stream nothing more can come: waiting on would be a busy loop.
        return self._start(connection, reply) if reply else not data

    def _start(self, connection: _Connection, reply: Reply) -> bool:
        connection.to_send, connection.draining = reply.data, reply.drain
        connection.received = b""
        return self._send(connection)

    def _send(self, connection: _Connection) -> bool:
        sent = self._calls.send(connection.fd, connection.to_send)
        if sent < len(connection.to_send):
            connection.to_send = connection.to_send[sent:]
            return False
        connection.to_send = b""
        if not connection.draining:
            return True
        self._calls.shutdown(connection.fd)
        return self._drain(connection)

    def _drain(self, connection: _Connection) -> bool:
        """Closing with unread bytes would reset the connection, and the client lose its answer."""
        while connection.drained < DRAIN_MAX:
            data = self._calls.recv(connection.fd)
            if data is None:
                return False
            if not data:
                return True
            connection.drained += len(data)
        return True

    def _drop(self, connection: _Connection) -> None:
        with held.lock:
            del self._open[connection.fd]
            # Not left to close(): a child may hold the same socket, and epoll would go on about it.
            self._poll.unregister(connection.fd)
            self._calls.close(connection.fd)

    def _expire(self, now: float) -> None:
        while self._open:
            oldest = next(iter(self._open.values()))
            if oldest.deadline > now:
                break
            self._drop(oldest)
        if self._paused_until is not None and self._paused_until <= now:
            self._paused_until = None
            for fd in self._listeners:
                self._poll.modify(fd, select.EPOLLIN)

    def _pause(self, now: float) -> None:
        self._paused_until = now + PAUSE_S
        for fd in self._listeners:
            self._poll.modify(fd, 0)

    def _tick(self, now: float) -> None:
        for at, ticker in self._tickers:
            if at <= now:
                wanted_s = ticker.call()
                later = [] if wanted_s is None else [(now + wanted_s, ticker)]
                self._tickers = [each for each in self._tickers if each[1] is not ticker] + later
