"""The table of the endpoint (docs/reference/endpoint.md) and of its options, without a socket."""

from __future__ import annotations

import dataclasses
import datetime as dt

import pytest

from yaffle_health.errors import BadOption, UnknownGroup
from yaffle_health.http import Options, Request, Response, answer
from yaffle_health.model import Check, Health, Service, Status
from yaffle_health.views import Shape

SERVICE = Service(service_id="id", description="nova-compute", host="node-1")
JSON = "application/health+json"


def health(status: Status = Status.PASS, *, next_expiry_s: float | None = None) -> Health:
    at = dt.datetime(2021, 12, 17, 16, 2, 55, tzinfo=dt.UTC)
    output = None if status is Status.PASS else "why"
    check = Check(name="database", status=status, time=at, age_s=1.0, output=output)
    return Health(status=status, service=SERVICE, checks=(check,), next_expiry_s=next_expiry_s)


def asked(
    method: str, path: str, query: str = "", status: Status = Status.PASS, **options: object
) -> Response:
    def health_of(group: str | None) -> Health:
        if group not in {None, "live"}:
            raise UnknownGroup(group, ["live"])
        return health(status)

    return answer(Request(method, path, query), health_of, Options(**options))  # type: ignore[arg-type]


# method, path, query, the health's status, then: status, content type, Allow, has a body
TABLE = [
    ("GET", "/health", "", Status.PASS, 200, JSON, None, True),
    ("GET", "/health", "", Status.WARN, 200, JSON, None, True),
    ("GET", "/health", "", Status.FAIL, 503, JSON, None, True),
    ("HEAD", "/health", "", Status.PASS, 200, JSON, None, False),
    ("HEAD", "/health", "", Status.FAIL, 503, JSON, None, False),
    ("OPTIONS", "/health", "", Status.FAIL, 204, None, "GET, HEAD, OPTIONS", False),
    ("OPTIONS", "*", "", Status.PASS, 204, None, "GET, HEAD, OPTIONS", False),
    ("POST", "/health", "", Status.PASS, 405, "text/plain; charset=utf-8", "GET, HEAD", True),
    ("PUT", "/health", "", Status.PASS, 405, "text/plain; charset=utf-8", "GET, HEAD", True),
    ("DELETE", "/health", "", Status.PASS, 405, "text/plain; charset=utf-8", "GET, HEAD", True),
    ("BREW", "/health", "", Status.PASS, 405, "text/plain; charset=utf-8", "GET, HEAD", True),
    ("get", "/health", "", Status.PASS, 405, "text/plain; charset=utf-8", "GET, HEAD", True),
    ("GET", "/", "", Status.PASS, 404, "text/plain; charset=utf-8", None, True),
    ("GET", "/healthcheck", "", Status.PASS, 404, "text/plain; charset=utf-8", None, True),
    ("GET", "/health/", "", Status.PASS, 404, "text/plain; charset=utf-8", None, True),
    ("GET", "/Health", "", Status.PASS, 404, "text/plain; charset=utf-8", None, True),
    ("HEAD", "/", "", Status.PASS, 404, "text/plain; charset=utf-8", None, False),
    ("POST", "/", "", Status.PASS, 404, "text/plain; charset=utf-8", None, True),
    ("OPTIONS", "/", "", Status.PASS, 404, "text/plain; charset=utf-8", None, True),
    ("GET", "*", "", Status.PASS, 404, "text/plain; charset=utf-8", None, True),
    ("GET", "/health", "verbose=1&x", Status.PASS, 200, JSON, None, True),
    ("GET", "/health", "format=yaml", Status.PASS, 200, JSON, None, True),
    ("GET", "/health", "format=text", Status.FAIL, 503, "text/plain; charset=utf-8", None, True),
    ("GET", "/health", "format=spring", Status.FAIL, 503, "application/json", None, True),
    (
        *("GET", "/health", "format=prometheus", Status.FAIL),
        *(200, "text/plain; version=0.0.4; charset=utf-8", None, True),
    ),
    ("GET", "/health", "group=live", Status.PASS, 200, JSON, None, True),
    ("GET", "/health", "group=", Status.PASS, 200, JSON, None, True),
    ("GET", "/health", "group=raedy", Status.PASS, 404, "text/plain; charset=utf-8", None, True),
]


@pytest.mark.parametrize(
    ("method", "path", "query", "said", "status", "kind", "allow", "body"), TABLE
)
def test_the_table_of_the_endpoint(
    method: str,
    path: str,
    query: str,
    said: Status,
    status: int,
    kind: str | None,
    allow: str | None,
    body: bool,
) -> None:
    response = asked(method, path, query, said)
    head, _, content = response.encode(0).partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines[1:])
    assert lines[0].startswith(f"HTTP/1.1 {status} ")
    assert headers.get("Content-Type") == kind
    assert headers.get("Allow") == allow
    assert bool(content) is body
    assert headers["Connection"] == "close"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "Server" not in headers
    assert "Location" not in headers
    assert ("Content-Length" in headers) is (status != 204)
    if body:
        assert int(headers["Content-Length"]) == len(content)


def test_head_differs_from_get_only_in_the_body() -> None:
    get = asked("GET", "/health").encode(0)
    head = asked("HEAD", "/health").encode(0)
    assert head.endswith(b"\r\n\r\n")
    assert get.startswith(head)
    assert len(get) > len(head)


# ttl, cache_control, capped, status, seconds to the next expiry, Cache-Control
CACHES = [
    (300, None, False, Status.PASS, 12.5, "max-age=300"),
    (300, None, False, Status.WARN, 12.5, "max-age=300"),
    (0, None, False, Status.PASS, None, None),
    (300, 0, False, Status.PASS, 12.5, None),
    (300, -1, False, Status.PASS, 12.5, "no-cache"),
    (300, 10, False, Status.PASS, 12.5, "max-age=10"),
    (0, 10, False, Status.PASS, None, "max-age=10"),
    (0.5, None, False, Status.PASS, 0.2, "no-cache"),
    (300, None, False, Status.FAIL, 12.5, "no-cache"),
    (300, 3600, False, Status.FAIL, None, "no-cache"),
    (300, 0, False, Status.FAIL, None, "no-cache"),
    (300, None, True, Status.PASS, 12.5, "max-age=12"),
    (300, 10, True, Status.PASS, 12.5, "max-age=10"),
    (300, None, True, Status.PASS, 0.5, "no-cache"),
    (300, None, True, Status.PASS, None, "max-age=300"),
    (300, 0, True, Status.PASS, 12.5, None),
    (300, -1, True, Status.PASS, 12.5, "no-cache"),
]


@pytest.mark.parametrize(("ttl", "wanted", "cap", "status", "expiry", "header"), CACHES)
def test_the_lifetime_given_to_caches(
    ttl: float,
    wanted: int | None,
    cap: bool,
    status: Status,
    expiry: float | None,
    header: str | None,
) -> None:
    options = Options(ttl_s=ttl, cache_control=wanted, cache_cap=cap)
    said = health(status, next_expiry_s=expiry)
    response = answer(Request("GET", "/health"), lambda _: said, options)
    assert dict(response.headers).get("Cache-Control") == header


@pytest.mark.parametrize(
    ("option", "options"),
    [
        ("ttl", {"ttl_s": -1}),
        ("ttl", {"ttl_s": float("nan")}),
        ("ttl", {"ttl_s": float("inf")}),
        ("cache_control", {"cache_control": -2}),
        ("cache_control", {"cache_control": 1.5}),
        ("cache_control", {"cache_control": True}),
        ("cache_control", {"cache_control": "10"}),
    ],
)
def test_an_option_that_cannot_be_meant_names_itself(option: str, options: dict[str, int]) -> None:
    with pytest.raises(BadOption) as refused:
        Options(**options)
    assert refused.value.option == option
    assert repr(next(iter(options.values()))) in str(refused.value)


def test_the_groups_name_themselves_to_who_misspelt_one() -> None:
    response = asked("GET", "/health", "group=raedy")
    assert b"raedy" in response.body
    assert b"live" in response.body


def test_the_option_group_is_what_a_plain_request_gets() -> None:
    asked_for: list[str | None] = []

    def health_of(group: str | None) -> Health:
        asked_for.append(group)
        return health()

    for query in ("", "group=ready"):
        answer(Request("GET", "/health", query), health_of, Options(group="live"))
    assert asked_for == ["live", "ready"]


def test_the_option_format_and_who_wins() -> None:
    ietf = 'application/health+json;profile="ietf-06"'
    cases = [
        ("", "", Shape.TEXT, "text/plain; charset=utf-8"),
        ("", ietf, Shape.TEXT, JSON),
        ("format=spring", ietf, Shape.TEXT, "application/json"),
    ]
    for query, accept, default, kind in cases:
        request = Request("GET", "/health", query, accept)
        response = answer(request, lambda _: health(), Options(format=default))
        assert dict(response.headers)["Content-Type"] == kind
        assert dict(response.headers)["Vary"] == "Accept"


def test_a_request_with_a_body_is_answered_and_then_drained() -> None:
    request = dataclasses.replace(Request("POST", "/health"), more_follows=True)
    assert answer(request, lambda _: health(), Options()).drain


def test_the_date_is_in_english_and_in_gmt() -> None:
    assert b"\r\nDate: Sun, 09 Sep 2001 01:46:40 GMT\r\n" in asked("GET", "/health").encode(1e9)
