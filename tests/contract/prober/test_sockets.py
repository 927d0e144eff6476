"""A socket that is used again is as good as new, and what is left of its former life harms nobody."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator

import pytest
from tests.contract.prober import servers
from tests.contract.prober.servers import Backlog, Server, answer, says
from tests.waiting import wait_for

from yaffle.prober.attempt import Attempt
from yaffle.prober.keepalive import IdleSocket
from yaffle.prober.loop import LOOK_S, Loop
from yaffle.prober.request import build
from yaffle.prober.rules import ready
from yaffle.prober.sockets import FREE_MAX, Sockets
from yaffle.prober.wire import Options


class Owner:
    """Notes how its attempt ended."""

    def __init__(self) -> None:
        self.idle: IdleSocket | None = None
        self.ended: list[tuple[str, str]] = []

    def attempt_ended(self, code: str, what: str, took_us: int) -> None:
        self.ended.append((code, what))


@pytest.fixture
def loop() -> Iterator[Loop]:
    """The prober's process simply ends; here what it would leave behind is closed."""
    loop = Loop()
    yield loop
    for free in loop.sockets._free.values():
        for sock in free:
            sock.close()


def begin(loop: Loop, url: str, timeout_s: float = 30.0) -> tuple[Attempt, Owner]:
    owner = Owner()
    rules = ready(Options(True, "", 1, 1.0, timeout_s, False))
    attempt = Attempt(loop, build(url, keep_alive=False), rules, owner)
    attempt.start()
    return attempt, owner


def finish(loop: Loop, owner: Owner) -> tuple[str, str]:
    deadline = time.monotonic() + 60
    while not owner.ended:
        assert time.monotonic() < deadline, "not within the time"
        loop.turn()
    assert len(owner.ended) == 1
    return owner.ended[0]


def ask(loop: Loop, url: str, lost: list[str] | None = None) -> str:
    """Return the code of one check; one that the machine kept us from making says nothing.

    It is noted in `lost`: it may have had a connection, or none.
    """
    for _ in range(20):
        code = finish(loop, begin(loop, url)[1])[0]
        if code != "X-LATE":
            return code
        if lost is not None:
            lost.append(code)
    return code


def free(loop: Loop, family: int = socket.AF_INET) -> list[socket.SocketType]:
    return loop.sockets._free.get(family, [])


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_one_socket_many_connections(loop: Loop, host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    ports: list[int] = []
    lost: list[str] = []

    def behave(sock: socket.socket) -> None:
        ports.append(sock.getpeername()[1])
        servers.read_request(sock)
        sock.sendall(answer())

    with Server(behave, host) as server:
        for _ in range(20):
            assert ask(loop, server.url, lost) == "L7-OK"
            assert len(free(loop, family)) == 1
        assert 20 <= server.connections <= 20 + len(lost)
    assert len(set(ports)) > 1


def test_what_was_not_read_is_not_read_by_the_next(loop: Loop) -> None:
    junk = b"HTTP/1.1 500 Not Yours\r\nContent-Length: 0\r\n\r\n" * 2_000
    with Server(says(answer() + junk)) as loud, Server(says(answer(b"", "204 N"))) as good:
        for _ in range(20):
            assert ask(loop, loud.url) == "L7-OK"
            assert ask(loop, good.url) == "L7-OK"
        assert len(free(loop)) == 1


def test_after_a_good_one_the_same_socket_finds_out_what_is_wrong(loop: Loop) -> None:
    refused = f"http://127.0.0.1:{servers.free_port()}/"
    with (
        Server(says(answer())) as good,
        Server(servers.resets()) as resets,
        Server(servers.closes) as closes,
        Server(says(answer()[:-1])) as short,
        Server(says(answer(b"", "503 S"))) as bad,
    ):
        expected = [
            (refused, "L4-REFUSED"),
            (resets.url, "L7-RESET"),
            (closes.url, "L7-CLOSED"),
            (short.url, "L7-SHORT"),
            (bad.url, "L7-STATUS"),
        ]
        for url, code in expected:
            assert ask(loop, good.url) == "L7-OK"
            assert ask(loop, url) == code
            # Only a whole answer gives its socket back.
            assert len(free(loop)) == (1 if code == "L7-STATUS" else 0)


def test_a_stale_hang_up_is_not_a_connection(loop: Loop) -> None:
    """The event of a dissolved connection is handed to whoever connects by the same descriptor."""
    with Server(says(answer())) as server, Backlog() as full:
        assert ask(loop, server.url) == "L7-OK"
        code = "X-LATE"
        while code == "X-LATE":
            attempt, owner = begin(loop, full.url, timeout_s=0.3)
            attempt.on_event(select.EPOLLHUP | select.EPOLLOUT | select.EPOLLIN)
            code = finish(loop, owner)[0]
        assert code == "L4-TIMEOUT"


def lateness_s(loop: Loop, url: str) -> list[float]:
    """Return how much too late each of twenty timeouts came; of those that the machine let come."""
    began = time.monotonic()
    attempts = [begin(loop, url, timeout_s=0.2 + n / 100) for n in range(20)]
    took: dict[int, float] = {}
    while len(took) < len(attempts):
        loop.turn()
        for n, (_, owner) in enumerate(attempts):
            if owner.ended and n not in took:
                took[n] = time.monotonic() - began
                assert owner.ended[0][0] in {"L7-TIMEOUT", "X-LATE"}
    ended = [n for n in took if attempts[n][1].ended[0][0] == "L7-TIMEOUT"]
    return [took[n] - 0.2 - n / 100 for n in ended]


def test_timeouts_are_neither_early_nor_much_too_late(loop: Loop) -> None:
    with Server(servers.silent) as server:

        def soon() -> bool:
            late_s = sorted(lateness_s(loop, server.url))
            assert min(late_s, default=0.0) >= 0
            # Half of a busy machine's noise, twice our own.
            return bool(late_s) and late_s[len(late_s) // 2] < 2 * LOOK_S + 0.05

        # It cannot be so while the machine stands still; if it were our doing, it never would be.
        wait_for(soon)


def test_an_ended_attempt_leaves_nothing_behind(loop: Loop) -> None:
    handlers = len(loop.handlers)
    with Server(says(answer())) as server:
        for _ in range(3):
            ask(loop, server.url)
            ask(loop, f"http://127.0.0.1:{servers.free_port()}/")
        attempt, owner = begin(loop, server.url)
        attempt.abandon()
        attempt.abandon()
        assert owner.ended == []
    assert (len(loop.handlers), len(loop.attempts)) == (handlers, 0)


def test_free_sockets_are_bounded() -> None:
    epoll = select.epoll()
    sockets = Sockets(epoll, {})
    lent = [sockets.take(socket.AF_INET) for _ in range(FREE_MAX + 5)]
    for sock in lent:
        sockets.give_back(sock)
    assert sum(sock.fileno() >= 0 for sock in lent) == FREE_MAX
    for sock in lent:
        sock.close()
    epoll.close()
