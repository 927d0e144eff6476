"""What the endpoint remembers is never shown for something else."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable

import pytest

from yaffle_health.errors import UnknownGroup
from yaffle_health.http import Options
from yaffle_health.model import Check, Health, Service, Status
from yaffle_health.server.responder import KNOWN_MAX, Responder
from yaffle_health.views import Shape, render, shown

AT = dt.datetime(2021, 12, 17, 16, 2, 55, 1, tzinfo=dt.UTC)
SERVICE = Service(service_id="id", description="nova-compute", host="node-1")
CHECK = Check(name="db", status=Status.WARN, time=AT, age_s=1.0, output="slow")
HEALTH = Health(status=Status.WARN, service=SERVICE, checks=(CHECK,), next_expiry_s=30.0)

SEEN: list[dict[str, object]] = [
    {"name": "other"},
    {"component_id": "1"},
    {"status": Status.FAIL},
    {"status": Status.PASS},
    {"output": "another reason"},
    {"expired": True},
    {"expired": True, "last_status": Status.FAIL},
    {"time": AT + dt.timedelta(seconds=1)},
]
UNSEEN: list[dict[str, object]] = [{"age_s": 2.0}, {"time": AT + dt.timedelta(milliseconds=500)}]
TYPED: list[dict[str, object]] = [{"component_type": "datastore"}]

Shows = Callable[[Health], bytes]


def changed(change: dict[str, object]) -> Health:
    check = dataclasses.replace(CHECK, **change)  # type: ignore[arg-type]
    return dataclasses.replace(HEALTH, checks=(check,))


@pytest.mark.parametrize("change", [*SEEN, *TYPED])
def test_a_change_that_is_seen_counts(change: dict[str, object]) -> None:
    assert render(changed(change), Shape.IETF) != render(HEALTH, Shape.IETF)
    assert shown(changed(change)) != shown(HEALTH)


@pytest.mark.parametrize("change", UNSEEN)
def test_a_change_that_is_not_seen_does_not_count(change: dict[str, object]) -> None:
    assert render(changed(change), Shape.IETF) == render(HEALTH, Shape.IETF)
    assert shown(changed(change)) == shown(HEALTH)


@pytest.mark.parametrize(
    "other",
    [
        dataclasses.replace(HEALTH, status=Status.FAIL),
        dataclasses.replace(HEALTH, checks=()),
        dataclasses.replace(HEALTH, checks=(CHECK, CHECK)),
        *(
            dataclasses.replace(HEALTH, service=dataclasses.replace(SERVICE, **{field: "x"}))
            for field in ("service_id", "description", "host", "hostname", "release")
        ),
        *(changed(change) for change in SEEN),
    ],
)
@pytest.mark.parametrize("query", ["", "?format=ietf", "?format=text", "?format=prometheus"])
def test_an_answer_is_sent_again_only_while_it_is_true(other: Health, query: str) -> None:
    now = [HEALTH]
    responder = Responder(lambda _: now[0], Options())
    request = f"GET /health{query} HTTP/1.1\r\n\r\n".encode()

    def body() -> bytes:
        reply = responder.reply(request)
        assert reply is not None
        return reply.data.partition(b"\r\n\r\n")[2]

    shape = Shape(query.partition("=")[2] or "nova")
    for health in (HEALTH, HEALTH, other, HEALTH, other):
        now[0] = health
        assert body() == render(health, shape)


def test_requests_that_differ_are_not_taken_for_each_other() -> None:
    def health_of(group: str | None) -> Health:
        if group == "none":
            raise UnknownGroup(group, ["live"])
        return HEALTH if group is None else dataclasses.replace(HEALTH, status=Status.FAIL)

    responder = Responder(health_of, Options())
    wanted = {
        b"GET /health HTTP/1.1\r\n\r\n": b"200",
        b"GET /health?group=live HTTP/1.1\r\n\r\n": b"503",
        b"HEAD /health HTTP/1.1\r\n\r\n": b"200",
        b"GET /health?group=none HTTP/1.1\r\n\r\n": b"404",
        b"GET / HTTP/1.1\r\n\r\n": b"404",
        b"POST /health HTTP/1.1\r\n\r\n": b"405",
    }
    for _ in range(3):
        for request, status in wanted.items():
            reply = responder.reply(request)
            assert reply is not None
            assert reply.data.split()[1] == status
            assert reply.data.endswith(b"\r\n\r\n") is request.startswith(b"HEAD")


def test_ages_and_capped_lifetimes_never_stand_still() -> None:
    now = [HEALTH]
    request = b"GET /health HTTP/1.1\r\n\r\n"
    responder = Responder(lambda _: now[0], Options(cache_cap=True))
    for left, header in ((30.0, b"max-age=30"), (12.5, b"max-age=12"), (0.5, b"no-cache")):
        now[0] = dataclasses.replace(HEALTH, next_expiry_s=left)
        reply = responder.reply(request)
        assert reply is not None
        assert b"Cache-Control: " + header in reply.data


def test_nobody_fills_the_memory_with_requests() -> None:
    responder = Responder(lambda _: HEALTH, Options())
    for number in range(10 * KNOWN_MAX):
        assert responder.reply(f"GET /health?{number} HTTP/1.1\r\n\r\n".encode()) is not None
    assert len(responder._known) <= KNOWN_MAX
