"""The endpoint over real sockets: addresses, refusals, restarts, and code of the host that raises."""

from __future__ import annotations

import _socket
import json
import logging
import os
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from health_wire import GET, ask, connected, eventually, read_all, serving, split

from yaffle_health.endpoint import serve
from yaffle_health.errors import BadOption, BadUri, BindFailed
from yaffle_health.manager import Manager
from yaffle_health.model import Health
from yaffle_health.server import Endpoint
from yaffle_health.server.calls import Calls, DirectCalls, PlainCalls
from yaffle_health.uris import Tcp, Unix


@pytest.fixture(params=[DirectCalls, PlainCalls])
def calls(request: pytest.FixtureRequest) -> Calls:
    found: Calls = request.param()
    return found


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def kernel_threads() -> set[str]:
    return {each.name for each in Path("/proc/self/task").iterdir()}


def test_it_answers_over_every_kind_of_address(calls: Calls, tmp_path: Path) -> None:
    uri = f"tcp://127.0.0.1:0,tcp://[::1]:0,unix://{tmp_path}/health.sock"
    with serving(uri=uri, calls=calls) as endpoint:
        assert [type(each) for each in endpoint.addresses] == [Tcp, Tcp, Unix]
        for address in endpoint.addresses:
            answer = ask(address)
            assert answer.status == 200
            assert answer.headers["Content-Type"] == "application/health+json"
            assert json.loads(answer.body)["status"] == "pass"
    assert endpoint.addresses == ()
    assert not endpoint.running


def test_what_is_reported_is_shown(calls: Calls) -> None:
    manager = Manager(description="nova-compute", host="node-1")
    with serving(manager, calls=calls) as endpoint:
        (address,) = endpoint.addresses
        for status, code in (("pass", 200), ("warn", 200), ("fail", 503), ("pass", 200)):
            manager.report("database", status, "why")
            answer = ask(address)
            assert answer.status == code
            assert json.loads(answer.body)["checks"]["database"]["status"] == status


def test_localhost_answers_on_every_address_it_stands_for() -> None:
    stands_for = {
        place[4][0] for place in socket.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM)
    }
    with serving(uri="tcp://localhost:0") as endpoint:
        found = {address.host for address in endpoint.addresses if isinstance(address, Tcp)}
        assert found
        assert found <= stands_for
        assert (
            len({address.port for address in endpoint.addresses if isinstance(address, Tcp)}) == 1
        )


def test_both_wildcards_stand_side_by_side() -> None:
    with serving(uri="tcp://0.0.0.0:0") as first:
        assert isinstance(first.addresses[0], Tcp)
        with serving(uri=f"tcp://[::]:{first.addresses[0].port}") as second:
            assert ask(second.addresses[0]).status == 200


def test_what_waits_is_known_without_an_accept() -> None:
    calls = DirectCalls()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        plain = _socket.socket(fileno=os.dup(listener.fileno()))
        plain.setblocking(False)
        for _ in range(2):
            assert not calls.more(plain)
            assert calls.accept(plain) == -1
            with socket.create_connection(listener.getsockname()):
                eventually(lambda: calls.more(plain))
                calls.close(calls.accept(plain))
        plain.close()


def test_a_request_in_pieces_and_a_half_closed_connection(calls: Calls) -> None:
    with serving(calls=calls) as endpoint:
        with connected(endpoint.addresses[0]) as client:
            for at in range(len(GET) - 1):
                client.sendall(GET[at : at + 1])
            client.sendall(GET[-1:])
            assert split(read_all(client)).status == 200
        with connected(endpoint.addresses[0]) as client:
            client.sendall(GET)
            client.shutdown(socket.SHUT_WR)
            assert split(read_all(client)).status == 200
        with connected(endpoint.addresses[0]) as client:
            client.sendall(GET[:-2])
            client.shutdown(socket.SHUT_WR)
            assert split(read_all(client)).status == 400


def test_a_body_is_never_read_and_never_resets_the_answer(calls: Calls, tmp_path: Path) -> None:
    head = b"POST /health HTTP/1.1\r\nContent-Length: 200000\r\n\r\n"
    uri = f"tcp://127.0.0.1:0,unix://{tmp_path}/health.sock"
    with serving(uri=uri, calls=calls) as endpoint:
        for address in endpoint.addresses:
            for _ in range(20):
                answer = ask(address, head + b"x" * 200_000)
                assert answer.status == 405
                assert len(answer.body) == int(answer.headers["Content-Length"])


def test_an_answer_larger_than_the_socket_s_buffer_arrives(calls: Calls, tmp_path: Path) -> None:
    manager = Manager()
    for number in range(1000):
        manager.report(f"check-{number}", "warn", "it is so " * 25)
    with serving(manager, uri=f"unix://{tmp_path}/health.sock", calls=calls) as endpoint:
        answer = ask(endpoint.addresses[0])
        assert len(answer.body) > 300_000
        assert len(json.loads(answer.body)["checks"]) == 1000


def test_empty_means_disabled() -> None:
    threads = threading.active_count()
    endpoint = serve(Manager(), uri="")
    assert not endpoint.running
    assert endpoint.addresses == endpoint.failures == ()
    assert threading.active_count() == threads


BAD = [
    ({"uri": "tcp://localhost:424242"}, "uri"),
    ({"uri": "unix://run/x.sock"}, "uri"),
    ({"uri": "unix:///" + "x" * 200}, "uri"),
    ({"uri": "", "cache_control": -2}, "cache_control"),
    ({"uri": "", "ttl_s": -1}, "ttl"),
    ({"uri": "", "format": "yaml"}, "format"),
    ({"uri": "", "socket_mode": 0o1777}, "socket_mode"),
    ({"uri": "", "socket_group": "no-such-group"}, "socket_group"),
    ({"uri": "", "max_connections": 0}, "max_connections"),
    ({"uri": "", "timeout_s": 0}, "timeout"),
    ({"uri": "", "after_fork": "maybe"}, "after_fork"),
    ({"uri": "tcp://127.0.0.1:80", "after_fork": "restart"}, "after_fork"),
    ({"uri": "unix:///run/x.sock", "after_fork": "restart"}, "after_fork"),
]


@pytest.mark.parametrize(("options", "option"), BAD)
def test_a_bad_option_is_loud_and_fatal_only_if_required(
    options: dict[str, object], option: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(BadOption) as refused:
        serve(Manager(), required=True, **options)  # type: ignore[arg-type]
    assert refused.value.option == option
    assert not caplog.records
    endpoint = serve(Manager(), **options)  # type: ignore[arg-type]
    assert not endpoint.running
    assert [str(each) for each in endpoint.failures] == [str(refused.value)]
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert f"[healthcheck] {option}" in record.getMessage()


def test_a_refused_bind_is_loud_and_the_rest_is_served(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        uri = f"tcp://127.0.0.1:{taken.getsockname()[1]},tcp://127.0.0.1:0"
        with pytest.raises(BindFailed) as refused:
            Endpoint(Manager().health, uri=uri, ephemeral=True, required=True).start()
        assert "tcp://127.0.0.1:" in str(refused.value)
        assert "Address already in use" in str(refused.value)
        with Endpoint(Manager().health, uri=uri, ephemeral=True) as endpoint:
            assert [type(each) for each in endpoint.failures] == [BindFailed]
            assert len(endpoint.addresses) == 1
            assert ask(endpoint.addresses[0]).status == 200
    assert [each.levelno for each in caplog.records] == [logging.ERROR]


def test_nobody_looks_for_another_process_where_it_is_this_one(tmp_path: Path) -> None:
    uri = f"tcp://127.0.0.1:0,unix://{tmp_path}/x.sock"
    with serving(uri=uri) as first:
        tcp, unix = first.addresses
        assert isinstance(tcp, Tcp)
        second = serve(Manager(), uri=f"tcp://localhost:{tcp.port},{unix}")
        assert not second.running
        whys = [each.why for each in second.failures if isinstance(each, BindFailed)]
        assert [f"this process itself listens at {tcp}" in whys[0], *whys[1:]] == [
            True,
            "this process itself listens there",
        ]
    within = f"tcp://127.0.0.1:{tcp.port},tcp://localhost:{tcp.port}"
    with Endpoint(Manager().health, uri=within) as endpoint:
        (failure,) = endpoint.failures
        assert f"this process itself listens at {tcp}" in str(failure)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to become somebody else")
def test_a_group_that_may_not_be_given_is_named() -> None:
    program = (
        "import os, sys, yaffle_health as y\n"
        # Imports all there is while it may still read it.
        "y.serve(y.Manager(), uri='unix://' + sys.argv[1] + '/y.sock').close()\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "e = y.serve(y.Manager(), uri='unix://' + sys.argv[1] + '/x.sock', socket_group='root')\n"
        "print(e.failures[0]); print(os.listdir(sys.argv[1]))\n"
    )
    # Not pytest's own, which is closed to others.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        ran = subprocess.run(
            [sys.executable, "-c", program, folder], capture_output=True, text=True, check=False
        )
    told, left = ran.stdout.splitlines()
    assert "[healthcheck] socket_group = 'root': a group can be given only" in told
    assert left == "[]"


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("tcp://no-such-host.invalid:8080", "cannot be resolved"),
        ("tcp://192.0.2.1:8080", "Cannot assign"),
        ("unix:///no/such/folder/health.sock", "/no/such/folder"),
    ],
)
def test_an_address_that_is_not_here(uri: str, why: str) -> None:
    with Endpoint(Manager().health, uri=uri) as endpoint:
        assert not endpoint.running
        (failure,) = endpoint.failures
    assert isinstance(failure, BindFailed)
    assert failure.address == uri
    assert why in failure.why


def test_a_required_endpoint_leaves_nothing_open_when_it_fails(tmp_path: Path) -> None:
    before = descriptors()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        uri = f"unix://{tmp_path}/a.sock,tcp://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(BindFailed):
            serve(Manager(), uri=uri, required=True)
    assert list(tmp_path.iterdir()) == []
    assert descriptors() == before


def test_it_can_be_closed_and_started_again_and_leaks_nothing(calls: Calls) -> None:
    manager = Manager()
    with serving(manager) as endpoint:
        (address,) = endpoint.addresses
    before = descriptors()
    again = Endpoint(manager.health, uri=str(address), calls=calls)
    for _ in range(20):
        again.start()
        assert again.start() is again
        assert ask(address).status == 200
        again.close()
        again.close()
        with pytest.raises(ConnectionRefusedError):
            connected(address)
    assert descriptors() == before


def test_code_of_the_host_that_raises_is_answered_and_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    manager, broken = Manager(), True

    def health_of(group: str | None) -> Health:
        if broken:
            raise RuntimeError("secret")
        return manager.health(group)

    with Endpoint(health_of, uri="tcp://127.0.0.1:0", ephemeral=True) as endpoint:
        for _ in range(3):
            answer = ask(endpoint.addresses[0])
            assert answer.status == 500
            assert b"secret" not in answer.body
        broken = False
        assert ask(endpoint.addresses[0]).status == 200
    assert [each.getMessage() for each in caplog.records] == ["cannot tell the health"]


def test_groups_and_formats_reach_the_manager() -> None:
    manager = Manager()
    manager.register("loop", groups=["live"])
    manager.report("database", "fail", "down")
    manager.passed("loop")
    with serving(manager) as endpoint:
        for path, status in (
            ("/health", 503),
            ("/health?group=live", 200),
            ("/health?group=ready", 503),
            ("/health?group=raedy", 404),
            ("/health?group=live&format=text", 200),
        ):
            assert (
                ask(endpoint.addresses[0], f"GET {path} HTTP/1.0\r\n\r\n".encode()).status == status
            )


def test_bad_uri_is_a_bad_option_too() -> None:
    with pytest.raises(BadUri):
        Endpoint(Manager().health, uri="tcp://127.0.0.1:0")


def test_one_thread_whatever_comes() -> None:
    others = kernel_threads()
    with serving() as endpoint:
        # By name: one that a test before has left may end meanwhile.
        before = kernel_threads()
        assert len(before - others) == 1
        clients = [connected(endpoint.addresses[0]) for _ in range(100)]
        ask(endpoint.addresses[0])
        assert kernel_threads() <= before
        for client in clients:
            client.close()
    eventually(lambda: not kernel_threads() & (before - others))
