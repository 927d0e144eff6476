"""Questions to many endpoints at once, in one thread, with one deadline for all of them.

A frozen process accepts connections and never answers; asked one after the other, ten of them would
take ten timeouts. So all are asked together: `poll`, sockets that never block, one deadline.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import errno
import os
import select
import socket
import time
from collections.abc import Iterable, Sequence
from typing import Final

from yaffle_health.reader.body import understand
from yaffle_health.reader.originals import real_poll, real_socket
from yaffle_health.reader.reading import Problem, Reading, judge
from yaffle_health.reader.resolve import SocketAddress, resolve
from yaffle_health.reader.wire import ANSWER_BYTES_MAX, Answer, Malformed, parse

DEFAULT_TIMEOUT_S: Final = 5.0
RECEIVE_BYTES: Final = 64 * 1024
# How soon a UNIX socket whose backlog is full is tried again: the kernel gives no event for it.
AGAIN_S: Final = 0.01
ACCEPT: Final = "application/health+json, application/json;q=0.9, */*;q=0.1"

_PROBLEMS: Final = {
    errno.ENOENT: (Problem.MISSING, "there is no such socket"),
    errno.ECONNREFUSED: (Problem.REFUSED, "nobody listens there"),
    errno.EACCES: (Problem.DENIED, "permission denied"),
    errno.EPERM: (Problem.DENIED, "permission denied"),
    errno.ENOTSOCK: (Problem.REFUSED, "that is no socket"),
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Whom to ask: a UNIX socket at `path`, or `host` and `port`; and what (`request`, a path with
    its query, without blanks or controls)."""

    path: str | None = None
    host: str = "localhost"
    port: int = 0
    request: str = "/health"

    def __str__(self) -> str:
        return f"unix://{self.path}" if self.path is not None else f"tcp://{self._authority()}"

    def _authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def question(self) -> bytes:
        """Return the request as it goes out."""
        # Servers ask for a Host even where the socket is a file.
        host = "localhost" if self.path is not None else self._authority()
        return (
            f"GET {self.request} HTTP/1.1\r\nHost: {host}\r\nAccept: {ACCEPT}\r\n"
            "User-Agent: yaffle-health\r\nConnection: close\r\n\r\n"
        ).encode("ascii")


def read(target: Target, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> Reading:
    """Ask one endpoint how it is; return in `timeout_s` seconds whatever happens, never raise."""
    return read_all([target], timeout_s=timeout_s)[0]


def read_all(
    targets: Iterable[Target], *, timeout_s: float = DEFAULT_TIMEOUT_S
) -> tuple[Reading, ...]:
    """Ask all of them at once; the answers come in the order of the targets.

    Under eventlet and gevent this uses the real `poll` on purpose: it blocks its thread for at most
    `timeout_s`, and may be called from threads that have no hub.
    """
    began = time.monotonic()
    questions = [_Question(target, began, timeout_s) for target in targets]
    poll = real_poll()
    try:
        while open_ := [q for q in questions if q.reading is None]:
            _turn(poll, open_)
    finally:
        for question in questions:
            question.close()
    return tuple(q.reading for q in questions if q.reading is not None)


def _turn(poll: select.poll, questions: Sequence[_Question]) -> None:
    """Wait once for all the open questions, and move each of them on."""
    sockets: dict[int, _Question] = {}
    for question in questions:
        question.look_at_the_clock()
        if question.reading is None and (number := question.connect()) is not None:
            sockets[number] = question
            poll.register(number, question.events)
    waiting = [q for q in questions if q.reading is None]
    if not waiting:
        return
    pause_s = min(q.remaining_s() for q in waiting)
    if len(sockets) < len(waiting):
        pause_s = min(pause_s, AGAIN_S)
    for number, _ in poll.poll(max(0.0, pause_s) * 1000):
        sockets[number].move()
    for number in sockets:
        poll.unregister(number)


class _Question:
    """One target on its way from connecting to an answer."""

    def __init__(self, target: Target, began: float, timeout_s: float) -> None:
        self.target = target
        self.reading: Reading | None = None
        self.events = select.POLLOUT
        self._began = began
        self._deadline = began + timeout_s
        self._socket: socket.socket | None = None
        self._places: list[SocketAddress] = []
        self._place_deadline = self._deadline
        self._unsent = target.question()
        self._received = bytearray()
        self._find_places()

    def remaining_s(self) -> float:
        """Return how long this step may still take."""
        return min(self._deadline, self._place_deadline) - time.monotonic()

    def look_at_the_clock(self) -> None:
        """Give up on a place, or on all of them, whose time is over."""
        if self.remaining_s() > 0:
            return
        said = f"{len(self._received)} bytes of an answer" if self._received else "no answer"
        waited_s = time.monotonic() - self._began
        self._next_place(Problem.TIMEOUT, f"{said} within {waited_s:.1f} s")

    def connect(self) -> int | None:
        """Return the file descriptor to wait for; None if there is nothing to wait for but time."""
        while self.reading is None and self._socket is None:
            place = self._places[0]
            try:
                self._socket = real_socket()(place.family, socket.SOCK_STREAM)
                self._socket.setblocking(False)
                self._socket.connect(place.address)
            except BlockingIOError as error:
                if error.errno == errno.EAGAIN:  # a UNIX socket whose backlog is full
                    self.close()
                    return None
            except OSError as error:
                self._next_place(*_problem(error))
        return None if self._socket is None else self._socket.fileno()

    def move(self) -> None:
        """Send or receive what is possible now."""
        assert self._socket is not None  # noqa: S101 - what poll named was registered
        try:
            if self._unsent:
                self._send(self._socket)
            else:
                self._receive(self._socket)
        except BlockingIOError:
            return
        except OSError as error:
            self._next_place(*_problem(error))
        except Malformed as error:
            self._end(Problem.NOT_HTTP, str(error))

    def close(self) -> None:
        """Let go of the socket."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _find_places(self) -> None:
        if self.target.path is not None:
            self._places = [SocketAddress(family=socket.AF_UNIX, address=self.target.path)]
        else:
            budget_s = self._deadline - time.monotonic()
            found = resolve(self.target.host, self.target.port, budget_s)
            if isinstance(found, str):
                self._end(Problem.UNRESOLVED, found)
                return
            self._places = list(found)
        self._share_the_time()

    def _share_the_time(self) -> None:
        # A black hole among a name's addresses must not eat the time of the others.
        now = time.monotonic()
        self._place_deadline = now + (self._deadline - now) / max(1, len(self._places))

    def _next_place(self, problem: Problem, why: str) -> None:
        self.close()
        del self._places[:1]
        if not self._places or self._received:
            self._end(problem, why)
            return
        self._unsent, self.events = self.target.question(), select.POLLOUT
        self._share_the_time()

    def _send(self, connection: socket.socket) -> None:
        failed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failed:
            raise OSError(failed, os.strerror(failed))
        self._place_deadline = self._deadline
        self._unsent = self._unsent[connection.send(self._unsent) :]
        if not self._unsent:
            self.events = select.POLLIN

    def _receive(self, connection: socket.socket) -> None:
        piece = connection.recv(RECEIVE_BYTES)
        self._received += piece
        answer = parse(bytes(self._received), ended=not piece)
        if answer is not None:
            self._finish(answer)
        elif len(self._received) > ANSWER_BYTES_MAX:
            raise Malformed(f"its answer is longer than {ANSWER_BYTES_MAX} bytes")

    def _finish(self, answer: Answer) -> None:
        document = understand(answer.body, now=dt.datetime.now(dt.UTC))
        verdict = judge(answer.status, document)
        self.close()
        self.reading = Reading(
            address=str(self.target),
            took_s=time.monotonic() - self._began,
            status=verdict.status,
            problem=Problem.NOT_HEALTH if verdict.status is None else None,
            why=verdict.why,
            http_status=answer.status,
            health=document.health,
            disagreements=verdict.disagreements,
        )

    def _end(self, problem: Problem, why: str) -> None:
        self.close()
        self.reading = Reading(
            address=str(self.target),
            took_s=time.monotonic() - self._began,
            problem=problem,
            why=why,
        )


def _problem(error: OSError) -> tuple[Problem, str]:
    known = _PROBLEMS.get(error.errno or 0)
    if known is not None:
        return known
    return Problem.UNREACHABLE, error.strerror or str(error)
