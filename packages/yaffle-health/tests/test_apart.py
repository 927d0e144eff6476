"""An endpoint that is served apart gives the answers of one in a thread, half a second later."""

from __future__ import annotations

import contextlib
import json
import logging
from pathlib import Path

import pytest
from health_wire import GET, Given, ask, connected, eventually, read_all, serving

from yaffle_health.endpoint import serve
from yaffle_health.errors import BadOption, UnknownGroup
from yaffle_health.manager import Manager
from yaffle_health.model import Check, Health, Service, Status
from yaffle_health.server import Endpoint
from yaffle_health.server.endpoint import TIMEOUT_MAX_S
from yaffle_health.server.published import GROUPS_MAX
from yaffle_health.uris import Address

REQUESTS = [
    b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /health HTTP/1.0\n\n",
    b"HEAD /health HTTP/1.1\r\n\r\n",
    b"OPTIONS /health HTTP/1.1\r\n\r\n",
    b"POST /health HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET /healthcheck HTTP/1.1\r\n\r\n",
    b"GET /health\r\n",
    b"GET /health HTTP/2.0\r\n\r\n",
    b"\x16\x03\x01 hello",
    b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n",
    b"GET /health HTTP/1.1\r\nX: " + b"x" * 9000 + b"\r\n\r\n",
    b'GET /health HTTP/1.1\r\nAccept: application/health+json;profile="ietf-06"\r\n\r\n',
    *(
        f"GET /health{query} HTTP/1.1\r\n\r\n".encode()
        for query in (
            "?group=live", "?group=ready", "?group=start", "?group=own", "?group=typo",
            "?format=ietf", "?format=spring", "?format=text", "?format=nonsense", "?x=1",
            "?group=own&format=ietf",
        )
    ),
]  # fmt: skip
OPTIONS: list[dict[str, object]] = [
    {},
    {"cache_control": 10},
    {"cache_control": -1, "format": "ietf"},
    {"cache_control": 0, "group": "own"},
    {"ttl_s": 0},
    {"ttl_s": 60, "group": "typo"},
]


def manager_of_many() -> Manager:
    manager = Manager(
        service_id="id",
        description="d",
        host="h",
        hostname="v",
        release="1",
        groups={"own": ["db"]},
    )
    manager.passed("db")
    manager.report("bus", "warn", "slow", component_id="1")
    manager.report("disk", "fail", "fault", component_id="ü")
    manager.register("loop", groups=["live", "start"])
    return manager


def comparable(address: object, request: bytes) -> tuple[int, dict[str, str], bytes]:
    answer = ask(address, request)  # type: ignore[arg-type]
    return answer.status, {k: v for k, v in answer.headers.items() if k != "Date"}, answer.body


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_request_gets_the_answer_of_a_thread(
    options: dict[str, object], tmp_path: Path
) -> None:
    manager = manager_of_many()
    uri = f"tcp://127.0.0.1:0,unix://{tmp_path}/x.sock"
    with (
        serving(manager, **options) as thread,
        serving(manager, uri=uri, apart=True, **options) as it,
    ):
        for place in it.addresses:
            for request in REQUESTS:
                assert comparable(place, request) == comparable(thread.addresses[0], request)


def test_ages_and_capped_lifetimes_go_on() -> None:
    manager = Manager()
    manager.passed("db")
    with serving(manager, apart=True, cache_cap=True, ttl_s=300) as endpoint:
        (address,) = endpoint.addresses

        def age() -> float:
            body = ask(address, b"GET /health?format=prometheus HTTP/1.0\r\n\r\n").body.decode()
            return float(body.splitlines()[-1].rsplit(" ", 1)[1])

        first = age()
        eventually(lambda: age() >= first + 0.2)
        assert 1 < int(ask(address).headers["Cache-Control"].removeprefix("max-age=")) < 300


def test_what_is_reported_is_shown_within_half_a_second() -> None:
    manager = Manager(ttl_s=300)
    with serving(manager, apart=True) as endpoint:
        (address,) = endpoint.addresses
        assert ask(address).status == 200
        for status, code in (("fail", 503), ("warn", 200), ("fail", 503), ("pass", 200)):
            manager.report("db", status, "why")
            with Given() as given:
                eventually(lambda: ask(address).status == code)  # noqa: B023
                assert json.loads(ask(address).body)["status"] == status
                # Half of one, and what a busy machine adds.
                assert given.s < 3
        manager.register("late", groups=["new"])
        eventually(lambda: ask(address, b"GET /health?group=new HTTP/1.0\r\n\r\n").status == 200)
        # What nobody reports is seen, too.
        manager.report("soon", "pass", ttl_s=0.2)
        eventually(lambda: b"stale since" in ask(address).body)


def test_a_function_is_asked_for_every_group_it_knows(caplog: pytest.LogCaptureFixture) -> None:
    manager, broken, asked = Manager(groups={"aa": ["db"]}), [False], set()

    def health_of(group: str | None) -> Health:
        asked.add(group)
        if broken[0]:
            raise RuntimeError("secret")
        if group == "start":
            raise UnknownGroup(group, ["aa", *(f"g{n}" for n in range(1000))])
        if group is not None and group.startswith("g"):
            raise UnknownGroup(group, [])
        return manager.health(group)

    with Endpoint(health_of, uri="tcp://127.0.0.1:0", ephemeral=True, apart=True) as endpoint:
        (address,) = endpoint.addresses

        def status(group: str) -> int:
            return ask(address, f"GET /health?group={group} HTTP/1.0\r\n\r\n".encode()).status

        assert (status("live"), status("start"), status("typo")) == (200, 404, 404)
        eventually(lambda: status("aa") == 200)
        manager.report("db", "fail", "down")
        eventually(lambda: status("aa") == 503)
        assert status("live") == 200
        broken[0] = True
        eventually(lambda: ask(address).status == 500)
        assert b"secret" not in ask(address).body
        broken[0] = False
        eventually(lambda: ask(address).status == 503)
    assert len(asked) <= GROUPS_MAX
    errors = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
    assert errors == ["cannot tell the health"]


def test_more_than_there_is_room_for_is_a_failure_that_says_so() -> None:
    service = Service(service_id="i", description="d", host="h")
    check = Check(
        name="a", status=Status.PASS, time=manager_of_many().health().checks[0].time, age_s=0
    )
    size = [5_000_000]

    def health_of(group: str | None) -> Health:
        told = Check(name="a", status=Status.WARN, time=check.time, age_s=0, output="x" * size[0])
        return Health(status=Status.WARN, service=service, checks=(told,))

    with Endpoint(health_of, uri="tcp://127.0.0.1:0", ephemeral=True, apart=True) as endpoint:
        (address,) = endpoint.addresses
        answer = ask(address)
        assert answer.status == 503
        output = json.loads(answer.body)["checks"]["health_items"]["output"]
        assert output.startswith("what is to be shown has 2000")
        assert output.endswith("4194304 at most can be shown apart")
        size[0] = 900_000
        eventually(lambda: ask(address).status == 200)
        assert len(ask(address).body) > 900_000


def test_many_items_are_shown() -> None:
    manager = Manager()
    for number in range(1000):
        manager.report(f"check-{number}", "warn", "it is so " * 25)
    with serving(manager, apart=True) as endpoint:
        assert len(json.loads(ask(endpoint.addresses[0]).body)["checks"]) == 1000


BAD: list[tuple[dict[str, object], str]] = [
    ({"apart": "yes"}, "apart"),
    ({"apart": None}, "apart"),
    ({"silent_max_s": 1}, "silent_max"),
    ({"silent_max_s": "5"}, "silent_max"),
    ({"silent_max_s": TIMEOUT_MAX_S + 1}, "silent_max"),
    ({"silent_max_s": float("nan")}, "silent_max"),
]


@pytest.mark.parametrize(("options", "option"), BAD)
def test_what_cannot_be_meant_is_refused(
    options: dict[str, object], option: str, tmp_path: Path
) -> None:
    endpoint = serve(Manager(), uri=f"unix://{tmp_path}/x", **options)  # type: ignore[arg-type]
    (failure,) = endpoint.failures
    assert isinstance(failure, BadOption)
    assert failure.option == option
    assert list(tmp_path.iterdir()) == []


def said(address: Address) -> bytes:
    """What comes of a whole request, if anything."""
    with connected(address) as client, contextlib.suppress(BrokenPipeError, ConnectionResetError):
        client.sendall(GET)
        return read_all(client)
    return b""


def test_slow_clients_are_held_to_the_same_limits() -> None:
    with serving(apart=True, timeout_s=0.3, max_connections=2) as endpoint:
        (address,) = endpoint.addresses
        with connected(address) as client:
            client.sendall(b"GET /hea")
            assert read_all(client) == b""
        idle = [connected(address) for _ in range(5)]
        # One that is held up between connecting and asking is cut off, too.
        eventually(lambda: b" 200 " in said(address))
        for each in idle:
            each.close()
