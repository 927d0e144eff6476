"""Attempt of a check: resolve, connect, shake hands, send, read; it ends in one row of the table.

It stands spurious events: a descriptor may be used again within one batch of events.
"""

from __future__ import annotations

import errno
import select
import socket
import ssl
from typing import TYPE_CHECKING, Final

from yaffle.prober import tls, verdict
from yaffle.prober.connecting import NO_ADDRESS, Failure, connect_failure, forbidden, text
from yaffle.prober.keepalive import IdleSocket, Owner
from yaffle.prober.loop import now_s
from yaffle.prober.phase import CONNECT as _CONNECT
from yaffle.prober.phase import DONE as _DONE
from yaffle.prober.phase import HANDSHAKE as _HANDSHAKE
from yaffle.prober.phase import RECEIVE as _RECEIVE
from yaffle.prober.phase import RESOLVE as _RESOLVE
from yaffle.prober.phase import SEND as _SEND
from yaffle.prober.phase import TIMEOUTS
from yaffle.prober.response import COMPLETE, Response

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaffle.prober.loop import Loop
    from yaffle.prober.request import Address, Request
    from yaffle.prober.resolver import Found
    from yaffle.prober.rules import Rules

_WRITABLE: Final = select.EPOLLOUT
_TROUBLE: Final = select.EPOLLERR | select.EPOLLHUP
_READABLE: Final = select.EPOLLIN | select.EPOLLRDHUP | _TROUBLE
_UNDER_WAY: Final = (0, errno.EINPROGRESS)
_FIRST_BYTES: Final = 4 * 1024
"""Nearly every answer is shorter, and room that is not asked for need not be found."""
_MORE_BYTES: Final = 32 * 1024


class Attempt:
    """Bounded by the rules' timeout, which counts only the time in which we were looking.

    A check makes one and starts it again for every attempt, for making an object of this size
    costs as much as reading the answer.
    """

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
        "deadline",
        "phase",
    )

    def __init__(self, loop: Loop, request: Request, rules: Rules, owner: Owner) -> None:
        self._loop = loop
        self._request = request
        self._rules = rules
        self._owner = owner
        self._addresses: Sequence[Address] = request.addresses or ()
        self._next = 0
        self._failure: Failure | None = None
        self._sock: socket.SocketType | None = None
        self._response: Response | None = None
        """None until something was received that is not a whole answer of a known kind."""
        self._reused = False
        self._unsent = b""
        self._started = 0.0
        self._lost_s = 0.0
        self._extended_s = 0.0
        self.deadline = 0.0
        self.phase = _DONE

    def start(self) -> None:
        """Begin; it ends by itself."""
        loop = self._loop
        self._started = started = now_s()
        self._lost_s = loop.lost_s
        self._extended_s = 0.0
        self._next = 0
        self._failure = None
        self._unsent = self._request.data
        self.deadline = started + self._rules.timeout_s
        self.phase = _RESOLVE
        loop.attempts.add(self)
        idle = self._owner.idle
        if idle is not None:
            self._reuse(idle)
        elif self._request.addresses is not None:
            self._connect()
        else:
            self._find()

    def abandon(self) -> None:
        """End without telling anybody: the watch is gone or the deadline has passed."""
        if self.phase is not _DONE:
            self._leave()

    def was_late(self, lost_s: float) -> None:
        """Our own loop did not look for too long."""
        self._end("X-LATE", f"not known: the prober itself was late by {lost_s:.1f} s")

    def time_up(self) -> None:
        """The timeout; time in which we did not look is given back first."""
        lost_s = self._loop.lost_s - self._lost_s
        if lost_s > 0:
            self._lost_s = self._loop.lost_s
            self._extended_s += lost_s
            if self._extended_s > self._rules.timeout_s:
                self.was_late(self._extended_s)
                return
            self.deadline = self._loop.now + lost_s
            return
        response = self._response
        if response is not None and response.status >= 300:
            self._judge(response)
            return
        code, what = TIMEOUTS[self.phase]
        self._end(code, f"{what} within {self._rules.timeout_s:g} s")

    # --- finding the address ---

    def _find(self) -> None:
        request = self._request
        if request.addresses is not None:
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
        loop = self._loop
        take = loop.sockets.take_python if self._request.tls else loop.sockets.take
        try:
            sock = take(family)
        except OSError as error:
            self._failed_with(connect_failure(error.errno or 0, family))
            return False
        error_number = sock.connect_ex(address)
        if error_number not in _UNDER_WAY:
            loop.sockets.close(sock)
            self._failed_with(connect_failure(error_number, family))
            return False
        self._sock = sock
        self.phase = _CONNECT
        loop.handlers[sock.fileno()] = self
        return True

    def _failed_with(self, failure: Failure) -> None:
        if self._failure is None or failure.rank < self._failure.rank:
            self._failure = failure

    def on_event(self, mask: int) -> None:
        """Go as far as the socket lets us."""
        if self.phase is _CONNECT and not self._connected(mask):
            return
        if self.phase is _HANDSHAKE and not self._shake_hands():
            return
        if self.phase is _SEND and not self._send():
            return
        if mask & _READABLE and self.phase is _RECEIVE:
            self._receive()

    def _connected(self, mask: int) -> bool:
        sock = self._sock
        if sock is None or (mask & _TROUBLE and not self._stands(sock)) or not mask & _WRITABLE:
            return False
        if self._request.tls:
            self.phase = _HANDSHAKE
            return self._wrap(sock)
        self.phase = _SEND
        return True

    def _stands(self, sock: socket.SocketType) -> bool:
        """Trouble while connecting: go on to the next address, or pass over a stale event."""
        number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number:
            self._failed_with(connect_failure(number, sock.family))
            self._loop.sockets.close(sock)
            self._sock = None
            self._connect()
        # Trouble without an error is what was left of the socket's former connection.
        return False

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
        unsent = self._unsent
        try:
            sent = sock.send(unsent)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError:
            # It may have answered before it stopped listening: reading tells.
            self.phase = _RECEIVE
            self._receive()
            return False
        if sent < len(unsent):
            self._unsent = unsent[sent:]
            return False
        self.phase = _RECEIVE
        return True

    def _receive(self) -> None:
        """Read until there is nothing more for now, or the answer has ended."""
        sock = self._sock
        if sock is None:
            return
        try:
            if self._response is None:
                data = sock.recv(_FIRST_BYTES)
                known = self._loop.heads.recall(data)
                if known is not None:
                    self._judge(known)
                    return
                response = self._response = Response()
                ended = self._feed(response, data)
                if ended:
                    self._loop.heads.learn(data, response)
            else:
                response, ended = self._response, False
            while not ended:
                ended = self._feed(response, sock.recv(_MORE_BYTES))
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError as error:
            self._broken(error, sock)
            return
        if response.ending == "L7-CLOSED" and self._reused:
            self._start_again()
        else:
            self._judge(response)

    def _feed(self, response: Response, data: bytes) -> bool:
        if data:
            return response.feed(data)
        response.connection_ended()
        return True

    def _broken(self, error: OSError, sock: socket.SocketType) -> None:
        response = self._response
        if self._reused and response is None:
            self._start_again()
        elif response is not None and response.status >= 300:
            self._judge(response)
        elif isinstance(error, ssl.SSLError):
            self._end(*tls.explain(error))
        elif isinstance(error, ConnectionError):
            if response is None:
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
            self._loop.sockets.close(self._sock)
        self._sock = None
        self._response = None
        self._reused = False
        self._unsent = self._request.data
        self.phase = _RESOLVE
        self._find()

    def _judge(self, answer: verdict.Answer) -> None:
        code, what = verdict.judge(answer, self._rules.pattern)
        self._part(answer)
        self._end(code, what)

    def _part(self, answer: verdict.Answer) -> None:
        """After a whole answer the connection is kept, or at least the socket."""
        sock, loop = self._sock, self._loop
        if sock is None or answer.ending != COMPLETE:
            return
        if self._rules.keep_alive and answer.keeps_alive and loop.idle_sockets < loop.sockets_max:
            self._owner.idle = IdleSocket(loop, self._owner, sock)
        elif self._request.tls:
            return
        else:
            loop.sockets.give_back(sock)
        self._sock = None

    # --- the end ---

    def _end(self, code: str, what: str) -> None:
        if self.phase is _DONE:
            return
        self._leave()
        # The loop's time is that of the event which ended it.
        took_us = int((self._loop.now - self._started) * 1e6)
        self._owner.attempt_ended(code, what, max(took_us, 0))

    def _leave(self) -> None:
        self.phase = _DONE
        if self._response is not None:
            self._response.release()
            self._response = None
        if self._sock is not None:
            self._loop.sockets.close(self._sock)
            self._sock = None
        self._reused = False
        self._loop.attempts.discard(self)
