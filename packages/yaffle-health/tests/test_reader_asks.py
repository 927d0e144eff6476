"""The reader against real sockets: peers that answer, drip, hang, refuse and are not there."""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from pathlib import Path

import health_peers as peers
import pytest
from health_wire import Given

from yaffle_health.model import Status
from yaffle_health.reader import Problem, Reading, Target, ask, read, read_all
from yaffle_health.reader.resolve import SocketAddress

PASS = peers.answer(200, '{"status": "pass"}')


def test_over_tcp_and_over_a_unix_socket(tmp_path: Path) -> None:
    with peers.listening(None, peers.saying(PASS)) as listener:
        reading = read(Target(host="127.0.0.1", port=peers.port_of(listener)), timeout_s=30)
        assert (reading.status, reading.http_status) == (Status.PASS, 200)
        assert reading.address == f"tcp://127.0.0.1:{peers.port_of(listener)}"
    with peers.listening(tmp_path / "s", peers.saying(PASS)):
        reading = read(Target(path=str(tmp_path / "s")), timeout_s=30)
        assert (reading.status, reading.problem, reading.disagreements) == (Status.PASS, None, ())


def test_ipv6_and_a_name_with_several_addresses() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as listener:
        threading.Thread(
            target=lambda: peers._play(listener.accept()[0], peers.saying(PASS)), daemon=True
        ).start()
        reading = read(Target(host="::1", port=peers.port_of(listener)), timeout_s=30)
        assert reading.status is Status.PASS
        assert reading.address.startswith("tcp://[::1]:")
    with peers.listening(None, peers.saying(PASS)) as listener:
        # Where localhost is ::1 first, the refusal there is not the end.
        assert read(Target(port=peers.port_of(listener)), timeout_s=30).status is Status.PASS


def test_the_question_is_a_proper_one(tmp_path: Path) -> None:
    heard: list[bytes] = []

    def script(connection: socket.socket) -> None:
        heard.append(connection.recv(65536))
        connection.sendall(PASS)

    with peers.listening(tmp_path / "s", script):
        read(Target(path=str(tmp_path / "s"), request="/health?group=live"), timeout_s=30)
    lines = heard[0].decode().split("\r\n")
    assert lines[0] == "GET /health?group=live HTTP/1.1"
    assert "Host: localhost" in lines
    assert "Connection: close" in lines


def test_an_answer_in_pieces_is_one_answer(tmp_path: Path) -> None:
    pieces = [PASS[i : i + 1] for i in range(len(PASS))]
    with peers.listening(tmp_path / "s", peers.saying(*pieces)):
        assert read(Target(path=str(tmp_path / "s")), timeout_s=30).status is Status.PASS


def test_a_peer_that_drips_does_not_hold_us(tmp_path: Path) -> None:
    stop = threading.Event()

    def drip(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n")
        while not stop.wait(0.02):
            connection.sendall(b"x")

    with peers.listening(tmp_path / "s", drip):
        # The peer may be held up for longer than that: it is given more.
        for timeout_s in (0.4, 4.0, 30.0):
            with Given() as given:
                began = time.monotonic()
                reading = read(Target(path=str(tmp_path / "s")), timeout_s=timeout_s)
                assert time.monotonic() - began > timeout_s * 3 / 4
                assert given.s < timeout_s + 1.6
            if "bytes of an answer" in (reading.why or ""):
                break
    stop.set()
    assert (reading.status, reading.problem) == (None, Problem.TIMEOUT)
    assert reading.why is not None
    assert "bytes of an answer" in reading.why


def test_a_process_that_accepts_and_says_nothing(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        reading = read(Target(path=str(tmp_path / "s")), timeout_s=0.2)
    assert reading.problem is Problem.TIMEOUT


def test_a_full_backlog_is_waited_for_and_then_given_up(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen(0)
        held = [socket.socket(socket.AF_UNIX) for _ in range(4)]
        for one in held:
            one.setblocking(False)
            one.connect_ex(str(tmp_path / "s"))
        reading = read(Target(path=str(tmp_path / "s")), timeout_s=0.2)
        assert reading.problem is Problem.TIMEOUT
        for one in held:
            one.close()


def asked_of(whole_s: float, *listeners: socket.socket) -> Reading:
    """Ask one after the other within so long in all."""
    question = ask._Question(Target(host="127.0.0.1", port=1), time.monotonic(), whole_s)
    question._places = [
        SocketAddress(family=socket.AF_INET, address=place.getsockname()) for place in listeners
    ]
    question._share_the_time()
    poll = select.poll()
    while question.reading is None:
        ask._turn(poll, [question])
    return question.reading


def test_a_black_hole_among_the_addresses_leaves_time_for_the_others() -> None:
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as hole,
        peers.listening(None, peers.saying(PASS)) as listener,
    ):
        held = [socket.socket() for _ in range(4)]
        for one in held:
            one.setblocking(False)
            one.connect_ex(hole.getsockname())
        # What is left may be held up for longer than it lasts: it is given more.
        for whole_s in (2.0, 10.0, 50.0):
            reading = asked_of(whole_s, hole, listener)
            if reading.problem is not Problem.TIMEOUT:
                break
        assert reading.status is Status.PASS
        assert whole_s / 4 < reading.took_s < whole_s
        for one in held:
            one.close()


def test_each_lack_of_an_answer_has_its_own_name(tmp_path: Path) -> None:
    stale = tmp_path / "stale"
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(stale))
    (tmp_path / "file").write_text("")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = peers.port_of(free)
    expected = {
        Target(path=str(stale)): Problem.REFUSED,
        Target(path=str(tmp_path / "none")): Problem.MISSING,
        Target(path=str(tmp_path / "file")): Problem.REFUSED,
        Target(path="/" + "x" * 200): Problem.UNREACHABLE,
        Target(host="127.0.0.1", port=port): Problem.REFUSED,
        Target(host="no-such-host.invalid", port=1): Problem.UNRESOLVED,
        Target(host="x" * 70 + ".invalid", port=1): Problem.UNRESOLVED,
    }
    readings = read_all(expected, timeout_s=30)
    assert {t: r.problem for t, r in zip(expected, readings, strict=True)} == expected
    assert all(r.status is None and r.why for r in readings)


def test_no_permission_is_told(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may connect to everything")
    with peers.listening(tmp_path / "s", peers.saying(PASS)):
        (tmp_path / "s").chmod(0)
        assert read(Target(path=str(tmp_path / "s")), timeout_s=30).problem is Problem.DENIED


def test_not_http_and_not_health(tmp_path: Path) -> None:
    with peers.listening(tmp_path / "ssh", peers.saying(b"SSH-2.0-x\r\n")):
        reading = read(Target(path=str(tmp_path / "ssh")), timeout_s=30)
        assert reading.problem is Problem.NOT_HTTP
    with peers.listening(tmp_path / "app", peers.saying(peers.answer(404, "<h1>no</h1>"))):
        reading = read(Target(path=str(tmp_path / "app")), timeout_s=30)
        assert (reading.problem, reading.http_status) == (Problem.NOT_HEALTH, 404)


def test_many_are_asked_at_once_and_the_frozen_do_not_add_up(tmp_path: Path) -> None:
    frozen = [socket.socket(socket.AF_UNIX) for _ in range(10)]
    targets = []
    for number, listener in enumerate(frozen):
        path = tmp_path / f"frozen-{number}"
        listener.bind(str(path))
        listener.listen()
        targets.append(Target(path=str(path)))
    with peers.listening(tmp_path / "well", peers.saying(PASS)):
        # One that is well may be held up for longer: it is given more.
        for timeout_s in (0.5, 5.0, 30.0):
            with Given() as given:
                readings = read_all(
                    [*targets, Target(path=str(tmp_path / "well"))], timeout_s=timeout_s
                )
                assert given.s < timeout_s + 1.5
            if readings[-1].problem is not Problem.TIMEOUT:
                break
    for listener in frozen:
        listener.close()
    assert [r.problem for r in readings] == [Problem.TIMEOUT] * 10 + [None]


def test_reading_leaves_no_socket_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with peers.listening(tmp_path / "s", peers.saying(b"nonsense")):
        for _ in range(20):
            read(Target(path=str(tmp_path / "s")), timeout_s=30)
            read(Target(path=str(tmp_path / "none")), timeout_s=30)
    deadline = time.monotonic() + 60
    while len(list(Path("/proc/self/fd").iterdir())) > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(list(Path("/proc/self/fd").iterdir())) <= before
