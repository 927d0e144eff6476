"""One attempt: resolve, connect, shake hands, send, read; it ends in exactly one row of the table.

It stands spurious events: a descriptor may be reused within one batch of events.
"""

from __future__ import annotations

import errno
import select
import socket
import ssl
import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from yaffle.prober import tls, verdict
from yaffle.prober.connecting import NO_ADDRESS, Failure, connect_failure, forbidden, text
from yaffle.prober.idle import IdleSocket, Owner
from yaffle.prober.loop import now_s
from yaffle.prober.response import Response

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaffle.prober.loop import Loop
    from yaffle.prober.request import Address, Request
    from yaffle.prober.resolver import Found
    from yaffle.prober.rules import Rules

_WRITABLE: Final = select.EPOLLOUT
_STREAM: Final = socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
_TROUBLE: Final = select.EPOLLERR | select.EPOLLHUP
_READABLE: Final = select.EPOLLIN | select.EPOLLRDHUP | _TROUBLE
_RECV_BYTES: Final = 32 * 1024
# Closed with a reset, as HAProxy does: a whole answer was read, and a TIME_WAIT for each check
# would use up the ports of this host within seconds.
_NO_LINGER: Final = struct.pack("ii", 1, 0)


class Phase(IntEnum):
    """Where an attempt is; decides which row a timeout is."""

    RESOLVE = 0
    CONNECT = 1
    HANDSHAKE = 2
    SEND = 3
    RECEIVE = 4
    DONE = 5


# Names of the module are looked up much faster than members of an enum.
_RESOLVE, _CONNECT, _HANDSHAKE, _SEND, _RECEIVE, _DONE = Phase

_TIMEOUTS: Final = {
    _RESOLVE: ("X-DNS", "the resolver did not answer in time"),
    _CONNECT: ("L4-TIMEOUT", "no connection"),
    _HANDSHAKE: ("L6-TIMEOUT", "no TLS handshake"),
    _SEND: ("L7-TIMEOUT", "connected, but no whole answer"),
    _RECEIVE: ("L7-TIMEOUT", "connected, but no whole answer"),
}


class Attempt:
    """Bounded by the rules' timeout, which counts only the time in which we were looking."""

    __slots__ = (
        "_addresses",
        "_extended_s",
        "_failure",
        "_loop",
        "_lost_s",
        "_next",
        "_owner",
        "_request",
        "_response",
        "_reused",
        "_rules",
        "_sock",
        "_started",
        "_unsent",
        "due",
        "phase",
    )

    def __init__(self, loop: Loop, request: Request, rules: Rules, owner: Owner) -> None:
        self._loop = loop
        self._request = request
        self._rules = rules
        self._owner = owner
        self._addresses: Sequence[Address] = ()
        self._next = 0
        self._failure: Failure | None = None
        self._sock: socket.SocketType | None = None
        self._response: Response | None = None
        self._reused = False
        self._unsent = request.data
        self._started = now_s()
        self._lost_s = loop.lost_s
        self._extended_s = 0.0
        self.due = 0
        self.phase = _RESOLVE

    def start(self) -> None:
        """Begin; it ends by itself."""
        loop = self._loop
        loop.attempts.add(self)
        loop.wheel.put(self, self._started + self._rules.timeout_s)
        if self._owner.idle is not None:
            self._reuse(self._owner.idle)
        else:
            self._find()

    def abandon(self) -> None:
        """End without telling anybody: the watch is gone or the deadline has passed."""
        if self.phase is not _DONE:
            self._leave(keep=False)

    def was_late(self, lost_s: float) -> None:
        """Our own loop did not look for too long."""
        self._end("X-LATE", f"not known: the prober itself was late by {lost_s:.1f} s")

    def fire(self) -> None:
        """The timeout; time in which we did not look is given back first."""
        lost_s = self._loop.lost_s - self._lost_s
        if lost_s > 0:
            self._lost_s = self._loop.lost_s
            self._extended_s += lost_s
            if self._extended_s > self._rules.timeout_s:
                self.was_late(self._extended_s)
                return
            self._loop.wheel.put(self, self._loop.now + lost_s)
            return
        response = self._response
        if response is not None and response.status >= 300:
            self._judge(response)
            return
        code, what = _TIMEOUTS[self.phase]
        self._end(code, f"{what} within {self._rules.timeout_s:g} s")

    # --- finding the address ---

    def _find(self) -> None:
        request = self._request
        if request.addresses is not None:
            self._addresses = request.addresses
            self._connect()
            return
        found = self._loop.resolver.ask(request.host, self._found)
        if found is not None:
            self._found(found)

    def _found(self, found: Found) -> None:
        if self.phase is not _RESOLVE:
            return
        if found.code:
            self._end(found.code, f"{self._request.host}: {found.why}")
            return
        port = self._request.port
        self._addresses = [
            (family, (ip, port) if family == socket.AF_INET else (ip, port, 0, scope))
            for family, ip, scope in found.addresses
        ]
        self._connect()

    # --- connecting ---

    def _connect(self) -> None:
        """Try the addresses from the next one on, until one is under way."""
        while self._next < len(self._addresses):
            family, address = self._addresses[self._next]
            self._next += 1
            why = self._loop.gate.refusal(address[0])
            if why is not None:
                self._failed_with(forbidden(why))
            elif self._open(family, address):
                return
        failure = self._failure or NO_ADDRESS
        self._end(failure.code, failure.what)

    def _open(self, family: int, address: tuple[str, int] | tuple[str, int, int, int]) -> bool:
        try:
            # Plain: the C type itself, for `socket.socket` adds nothing here but its cost.
            make = socket.socket if self._request.tls else socket.SocketType
            sock = make(family, _STREAM)
        except OSError as error:
            self._failed_with(connect_failure(error.errno or 0, family))
            return False
        error_number = sock.connect_ex(address)
        if error_number not in (0, errno.EINPROGRESS):
            sock.close()
            self._failed_with(connect_failure(error_number, family))
            return False
        self._sock = sock
        self.phase = _CONNECT
        self._loop.watch(sock, self)
        return True

    def _failed_with(self, failure: Failure) -> None:
        if self._failure is None or failure.rank < self._failure.rank:
            self._failure = failure

    def on_event(self, mask: int) -> None:
        """Go as far as the socket lets us."""
        sock = self._sock
        if sock is None:
            return
        if self.phase is _CONNECT and not self._connected(sock, mask):
            return
        if self.phase is _HANDSHAKE and not self._shake_hands():
            return
        if self.phase is _SEND and not self._send():
            return
        if mask & _READABLE and self.phase is _RECEIVE:
            self._receive()

    def _connected(self, sock: socket.SocketType, mask: int) -> bool:
        if mask & _TROUBLE:
            number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if number:
                self._failed_with(connect_failure(number, sock.family))
                self._loop.close(sock)
                self._sock = None
                self._connect()
                return False
        elif not mask & _WRITABLE:
            return False
        self.phase = _HANDSHAKE if self._request.tls else _SEND
        return not self._request.tls or self._wrap(sock)

    # --- TLS ---

    def _wrap(self, sock: socket.SocketType) -> bool:
        fd = sock.fileno()
        try:
            self._sock = self._loop.tls.wrap(
                sock, self._request.host, verify=self._rules.ssl_verify
            )
        except (OSError, ValueError) as error:
            self._loop.handlers.pop(fd, None)
            sock.close()
            self._sock = None
            code = "L6-TLS" if isinstance(error, ConnectionError) else "X-LOCAL"
            self._end(code, f"TLS: {error}")
            return False
        return True

    def _shake_hands(self) -> bool:
        sock = self._sock
        if not isinstance(sock, ssl.SSLSocket):
            return False
        try:
            sock.do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except ssl.SSLError as error:
            self._end(*tls.explain(error))
            return False
        except OSError as error:
            self._end("L6-TLS", f"{text(error.errno)} during the TLS handshake")
            return False
        self.phase = _SEND
        return True

    # --- asking and reading ---

    def _reuse(self, idle: IdleSocket) -> None:
        self._sock = idle.take()
        self._loop.handlers[self._sock.fileno()] = self
        self._reused = True
        self.phase = _SEND
        self._send()

    def _send(self) -> bool:
        """Send what is left; False while it is not all out."""
        sock = self._sock
        if sock is None:
            return False
        try:
            sent = sock.send(self._unsent)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError:
            # It may have answered before it stopped listening: reading tells.
            self._start_reading()
            self._receive()
            return False
        self._unsent = self._unsent[sent:]
        if self._unsent:
            return False
        self._start_reading()
        return True

    def _start_reading(self) -> None:
        self._response = Response()
        self.phase = _RECEIVE

    def _receive(self) -> None:
        """Read until there is nothing more for now, or the answer has ended."""
        sock, response = self._sock, self._response
        if sock is None or response is None:
            return
        try:
            while True:
                data = sock.recv(_RECV_BYTES)
                if not data:
                    response.connection_ended()
                    break
                if response.feed(data):
                    break
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError as error:
            self._broken(error, sock, response)
            return
        if response.ending == "L7-CLOSED" and self._reused:
            self._start_again()
        else:
            self._judge(response)

    def _broken(self, error: OSError, sock: socket.SocketType, response: Response) -> None:
        if self._reused and response.untouched:
            self._start_again()
        elif response.status >= 300:
            self._judge(response)
        elif isinstance(error, ssl.SSLError):
            self._end(*tls.explain(error))
        elif isinstance(error, ConnectionError):
            if response.untouched:
                self._end("L7-RESET", "the connection was reset before an answer")
            else:
                self._end("L7-SHORT", "the connection was reset inside the answer")
        else:
            failure = connect_failure(error.errno or 0, sock.family)
            code = "L7-TIMEOUT" if failure.code == "L4-TIMEOUT" else failure.code
            self._end(code, failure.what)

    def _start_again(self) -> None:
        """A kept connection that was closed meanwhile says nothing about the node."""
        if self._sock is not None:
            self._loop.close(self._sock)
        self._sock = None
        self._response = None
        self._reused = False
        self._unsent = self._request.data
        self.phase = _RESOLVE
        self._find()

    def _judge(self, response: Response) -> None:
        code, what = verdict.judge(response, self._rules.pattern)
        keep = (
            self._rules.keep_alive
            and response.keeps_alive
            and self._loop.idle_sockets < self._loop.sockets_max
        )
        self._end(code, what, keep=keep)

    # --- the end ---

    def _end(self, code: str, what: str, *, keep: bool = False) -> None:
        if self.phase is _DONE:
            return
        took_us = int((now_s() - self._started) * 1e6)
        self._leave(keep=keep)
        self._owner.attempt_ended(code, what, took_us)

    def _leave(self, *, keep: bool) -> None:
        self.phase = _DONE
        self._loop.wheel.cancel(self)
        if self._response is not None:
            self._response.release()
        sock, self._sock = self._sock, None
        if sock is not None and keep:
            self._owner.idle = IdleSocket(self._loop, self._owner, sock)
        elif sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
            self._loop.close(sock)
        self._loop.attempts.discard(self)
