"""Whoever connects, and whatever they send or do not send: the next honest probe is answered."""

from __future__ import annotations

import contextlib
import json
import random
import resource
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from health_wire import GET, Given, ask, connected, eventually, read_all, serving, split

from yaffle_health.manager import Manager
from yaffle_health.uris import Address, Unix

PROMPT_S = 2.0
"""What a probe may take here: the machine of the tests is busy; alone it takes a millisecond."""


def answered_promptly(address: Address) -> None:
    with Given() as given:
        assert ask(address).status == 200
        assert given.s < PROMPT_S


@contextlib.contextmanager
def crowd(address: Address, size: int, says: bytes = b"") -> Iterator[list[socket.socket]]:
    clients: list[socket.socket] = []
    try:
        for _ in range(size):
            clients.append(connected(address))
            clients[-1].sendall(says)
        yield clients
    finally:
        for client in clients:
            client.close()


def is_closed(client: socket.socket) -> bool:
    """Whether the other side has hung up, with or without a word."""
    poll = select.poll()
    poll.register(client, select.POLLRDHUP)
    return bool(poll.poll(0))


@pytest.mark.parametrize("kind", ["tcp", "unix"])
@pytest.mark.parametrize("says", [b"", b"GET /hea"], ids=["silent", "half a request"])
def test_a_thousand_idle_connections(kind: str, says: bytes, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 4096 <= hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096, hard))
    uri = "tcp://127.0.0.1:0" if kind == "tcp" else f"unix://{tmp_path}/health.sock"
    # Nobody's time is up while this lasts: who has to go goes for want of room.
    with serving(uri=uri, timeout_s=600) as endpoint:
        (address,) = endpoint.addresses
        descriptors = len(list(Path("/proc/self/fd").iterdir()))
        with crowd(address, 1000, says) as clients:
            for _ in range(20):
                answered_promptly(address)
            held = len(list(Path("/proc/self/fd").iterdir())) - descriptors - len(clients)
            assert held <= 32 + 1
            # The oldest had to go, the youngest may stay.
            eventually(lambda: is_closed(clients[0]))
            assert not is_closed(clients[-1])


def test_whoever_trickles_has_the_same_time_as_everybody() -> None:
    with serving(timeout_s=0.5) as endpoint, Given() as given:
        started = time.monotonic()
        with connected(endpoint.addresses[0]) as client, contextlib.suppress(ConnectionError):
            while not is_closed(client):
                client.sendall(b"x")
                time.sleep(0.02)
                assert given.s < 5
        assert time.monotonic() - started >= 0.4


def test_slowloris() -> None:
    """Fifty that send a header line now and then, for longer than their time."""
    with serving(timeout_s=1.0) as endpoint:
        (address,) = endpoint.addresses
        with crowd(address, 50, b"GET /health HTTP/1.1\r\n") as clients:
            until, answered, cut_off = time.monotonic() + 2, 0, 0
            # Longer, where the first of them were held up; the bound is for broken code.
            while time.monotonic() < until or answered <= cut_off < 60:
                for client in clients:
                    with contextlib.suppress(ConnectionError):
                        client.sendall(b"X-A: b\r\n")
                try:
                    answered_promptly(address)
                    answered += 1
                except IndexError:
                    # Held up between connecting and asking: it has no more time than those.
                    cut_off += 1
            assert answered > cut_off
            eventually(lambda: all(is_closed(client) for client in clients))


def answered_whole(address: Address) -> bool:
    with connected(address) as client, contextlib.suppress(ConnectionError):
        client.sendall(GET)
        return read_all(client).startswith(b"HTTP/1.1 200 ")
    return False


def test_who_never_reads_is_let_go(tmp_path: Path) -> None:
    manager = Manager()
    for number in range(1000):
        manager.report(f"check-{number}", "warn", "it is so " * 25)
    with serving(manager, uri=f"unix://{tmp_path}/health.sock", timeout_s=0.5) as endpoint:
        (address,) = endpoint.addresses
        with crowd(address, 3, GET) as clients:
            # Held up between connecting and asking, or reading, it has no more time than those.
            eventually(lambda: answered_whole(address))
            hung_up = select.poll()
            for client in clients:
                hung_up.register(client, 0)
            eventually(lambda: len(hung_up.poll(0)) == len(clients))


def test_more_that_have_asked_than_there_is_room_for() -> None:
    """All slots taken by clients that do not read: the oldest of them goes."""
    with serving(max_connections=2) as endpoint:
        (address,) = endpoint.addresses
        body = b"POST /health HTTP/1.1\r\nContent-Length: 9\r\n\r\n"
        with crowd(address, 4, body):
            answered_promptly(address)


def garbage(seed: int) -> bytes:
    chance = random.Random(seed)
    pieces = [
        *(b"GET ", b"/health", b" HTTP/1.1", b"\r\n", b"\n", b"\r", b"\0", b":", b" ", b"\xff"),
        *(b"Host: a", b"Content-Length: 5", b"\r\n\r\n", b"\x16\x03\x01", b"PRI * HTTP/2.0"),
        *(chance.randbytes(chance.randrange(1, 40)), b"A" * chance.randrange(1, 9000)),
    ]
    return b"".join(chance.choices(pieces, k=chance.randrange(1, 12)))


def test_garbage_is_refused_or_answered_but_never_hurts() -> None:
    statuses = set()
    with serving(timeout_s=2.0) as endpoint:
        (address,) = endpoint.addresses
        for seed in range(500):
            with connected(address) as client:
                with contextlib.suppress(ConnectionError):
                    client.sendall(garbage(seed))
                    client.shutdown(socket.SHUT_WR)
                with contextlib.suppress(OSError):
                    if data := read_all(client):
                        statuses.add(split(data).status)
        answered_promptly(address)
    assert statuses <= {200, 400, 404, 405, 414, 431, 505}
    assert 400 in statuses


@pytest.mark.parametrize("data", [b"\r\n", b"\n", b"\r", b"G", b"\r\n\r\n"])
def test_a_connection_that_ends_early_is_closed_at_once_and_costs_nothing(data: bytes) -> None:
    """Not kept until its time is up, in a loop that sees its end again and again."""
    with serving(timeout_s=60.0) as endpoint, connected(endpoint.addresses[0]) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        read_all(client)


BIG = [
    (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", 414),
    (b"GET /" + b"x" * 250_000, 414),
    (b"GET /health HTTP/1.1\r\n" + b"X: y\r\n" * 101 + b"\r\n", 431),
    (b"GET /health HTTP/1.1\r\nX: " + b"y" * 200_000 + b"\r\n\r\n", 431),
    (b"GET /health\r\n", 400),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500), 400),
    (GET * 1000, 200),
]


@pytest.mark.parametrize(("data", "status"), BIG, ids=lambda value: str(value)[:20])
def test_who_sends_too_much_still_reads_why(data: bytes, status: int, tmp_path: Path) -> None:
    with serving(uri=f"tcp://127.0.0.1:0,unix://{tmp_path}/health.sock") as endpoint:
        for address in endpoint.addresses:
            for _ in range(5):
                answer = ask(address, data)
                assert answer.status == status
                assert len(answer.body) == int(answer.headers["Content-Length"])


def test_who_sends_for_ever_is_cut_off() -> None:
    with serving(timeout_s=30.0) as endpoint, connected(endpoint.addresses[0]) as client:
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < 100_000_000:
                sent += client.send(b"x" * 65536)
        assert sent < 50_000_000


def test_connections_that_are_reset_at_every_moment() -> None:
    reset = struct.pack("ii", 1, 0)
    with serving() as endpoint:
        (address,) = endpoint.addresses
        for size in range(len(GET) + 1):
            client = connected(address)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            client.sendall(GET[:size])
            client.close()
        answered_promptly(address)


def test_a_flood_of_honest_probes_is_answered_in_full() -> None:
    wrong: list[int] = []
    with serving() as endpoint:
        (address,) = endpoint.addresses

        def probe() -> None:
            wrong.extend(status for _ in range(250) if (status := ask(address).status) != 200)

        threads = [threading.Thread(target=probe) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


EXHAUSTED = """
import os, resource, sys, time
import yaffle_health as y
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
manager = y.Manager()
endpoint = y.serve(manager, uri=f"unix://{sys.argv[1]}", required=True)
taken = []
try:
    while True:
        taken.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    print("exhausted", flush=True)
before = time.process_time()
sys.stdin.readline()
print("used", time.process_time() - before, flush=True)
for fd in taken:
    os.close(fd)
sys.stdin.read()
"""


def test_a_process_without_descriptors_waits_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "health.sock"
    with subprocess.Popen(
        [sys.executable, "-c", EXHAUSTED, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "exhausted\n"
        with connected(Unix(str(path))) as client:
            client.sendall(GET)
            poll = select.poll()
            poll.register(client, select.POLLIN)
            assert not poll.poll(1000)
            child.stdin.write("\n")
            child.stdin.flush()
            used_s = float(child.stdout.readline().split()[1])
            # Not a loop that asks again and again for the second that this took.
            assert used_s < 0.1
            assert json.loads(split(read_all(client)).body)["status"] == "pass"
        child.communicate("", timeout=60)
