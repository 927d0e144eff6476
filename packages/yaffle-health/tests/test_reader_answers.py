"""What the reader makes of answers: pure, table by table."""

from __future__ import annotations

import datetime as dt
import json

import pytest

from yaffle_health.model import Status
from yaffle_health.reader.body import understand
from yaffle_health.reader.reading import judge
from yaffle_health.reader.wire import BODY_BYTES_MAX, HEAD_BYTES_MAX, Malformed, parse

NOW = dt.datetime(2026, 11, 20, 12, 0, 0, tzinfo=dt.UTC)
OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("received", "status", "body"),
    [
        pytest.param(OK + b"Content-Length: 2\r\n\r\nhi", 200, b"hi", id="length"),
        pytest.param(OK + b"content-length:2\r\n\r\nhi and more", 200, b"hi", id="bytes-after"),
        pytest.param(OK + b"Content-Length: 0\r\n\r\n", 200, b"", id="nothing"),
        pytest.param(b"HTTP/1.0 503 No\nContent-Length: 2\n\nhi", 503, b"hi", id="bare-newlines"),
        pytest.param(b"HTTP/1.1 204 \r\n\r\n", 204, b"", id="no-content"),
        pytest.param(
            OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n1;x=y\r\n!\r\n0\r\n\r\n",
            200,
            b"hi!",
            id="chunks",
        ),
        pytest.param(
            b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n" + OK + b"Content-Length: 1\r\n\r\nx",
            200,
            b"x",
            id="interim-first",
        ),
    ],
)
def test_a_whole_answer_is_found_however_it_is_framed(
    received: bytes, status: int, body: bytes
) -> None:
    answer = parse(received, ended=False)
    assert answer is not None
    assert (answer.status, answer.body) == (status, body)


def test_a_body_without_a_length_ends_with_the_connection() -> None:
    assert parse(OK + b"\r\nhal", ended=False) is None
    answer = parse(OK + b"\r\nhalf", ended=True)
    assert answer is not None
    assert answer.body == b"half"


def test_every_prefix_of_an_answer_waits_for_more() -> None:
    chunked = OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n"
    for whole in (OK + b"Content-Length: 2\r\n\r\nhi", chunked):
        for end in range(len(whole) - 1):
            assert parse(whole[:end], ended=False) is None, whole[:end]


@pytest.mark.parametrize(
    ("received", "word"),
    [
        pytest.param(b"", "without a word", id="nothing"),
        pytest.param(OK + b"Content-", "middle of the headers", id="half-headers"),
        pytest.param(OK + b"Content-Length: 5\r\n\r\nhi", "2 of 5", id="short"),
        pytest.param(OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhi", "chunk", id="half-chunk"),
        pytest.param(b'{"status": "pass"}\n\n', "HTTP/1", id="http-0.9"),
        pytest.param(b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "HTTP/1", id="ssh"),
        pytest.param(b"\x15\x03\x03\x00\x02\x02\n\n", "HTTP/1", id="tls"),
        pytest.param(b"HTTP/1.1 20 OK\r\n\r\n", "HTTP/1", id="two-digits"),
        pytest.param(b"HTTP/1.1 999 OK\r\n\r\n", "999", id="no-such-status"),
        pytest.param(b"HTTP/2 200\r\n\r\n", "HTTP/1", id="http-2"),
        pytest.param(OK + b"Content-Length: -1\r\n\r\n", "Content-Length", id="negative"),
        pytest.param(OK + b"Content-Length: 1e3\r\n\r\n", "Content-Length", id="exponent"),
        pytest.param(OK + b"Content-Length: 99999999\r\n\r\n", "longer", id="huge"),
        pytest.param(OK + b"\r\n" + b"x" * (BODY_BYTES_MAX + 1), "longer", id="endless"),
        pytest.param(
            OK + b"Transfer-Encoding: chunked\r\n\r\n-2\r\nhi", "size of a chunk", id="chunk-minus"
        ),
        pytest.param(
            OK + b"Transfer-Encoding: chunked\r\n\r\nFFFFFF\r\nhi", "longer", id="chunk-huge"
        ),
    ],
)
def test_what_is_no_answer_is_named(received: bytes, word: str) -> None:
    with pytest.raises(Malformed, match=word):
        parse(received, ended=True)


def test_what_cannot_become_an_answer_is_refused_before_it_ends() -> None:
    with pytest.raises(Malformed):
        parse(b"220 mail.example ESMTP", ended=False)
    with pytest.raises(Malformed, match="headers"):
        parse(OK + b"X: " + b"y" * HEAD_BYTES_MAX, ended=False)


SEED = """{"status": "fail", "version": "1.0", "serviceId": "0a47dceb", "description": "nova-compute",
 "notes": {"host": "controller-1", "hostname": "hv-1"},
 "checks": {"message_bus": {"status": "pass", "time": "2026-11-20T11:59:00+00:00"},
            "hypervisor": {"status": "fail", "time": "2026-11-20T11:59:30+00:00",
                           "output": "Libvirt Error: ..."}}}"""
DRAFT = """{"status": "FAIL", "version": "31.0", "serviceId": "0a47dceb",
 "description": "nova-compute", "notes": ["host=controller-1", "hostname=hv-1", "free words"],
 "checks": {"hypervisor": [{"componentId": "b", "status": "Error", "time": "2026-11-20T11:59:30Z",
                            "output": "Libvirt Error: ..."},
                           {"componentId": "a", "status": "up", "observedValue": 3}],
            "message_bus": [{"time": "2026-11-20T11:59:00Z"}]}}"""


def test_the_seeds_shape_and_the_drafts_say_the_same() -> None:
    seed, draft = (understand(text.encode(), now=NOW) for text in (SEED, DRAFT))
    assert seed.remarks == draft.remarks == ()
    assert seed.health is not None
    assert draft.health is not None
    for health in (seed.health, draft.health):
        assert health.status is Status.FAIL
        service = health.service
        assert (service.service_id, service.description) == ("0a47dceb", "nova-compute")
        assert (service.host, service.hostname) == ("controller-1", "hv-1")
    bus, hypervisor = seed.health.checks[1], seed.health.checks[0]
    assert (bus.name, bus.status, bus.age_s, bus.output) == ("message_bus", Status.PASS, 60.0, None)
    assert (hypervisor.status, hypervisor.output) == (Status.FAIL, "Libvirt Error: ...")
    told = [(c.name, c.component_id, c.status) for c in draft.health.checks]
    assert told == [
        ("hypervisor", "a", Status.PASS),
        ("hypervisor", "b", Status.FAIL),
        ("message_bus", None, Status.PASS),
    ]


def test_version_is_the_services_own_only_in_the_drafts_shape() -> None:
    seed, draft = (understand(text.encode(), now=NOW).health for text in (SEED, DRAFT))
    assert seed is not None
    assert draft is not None
    assert (seed.service.release, draft.service.release) == (None, "31.0")


@pytest.mark.parametrize(
    ("word", "status"),
    [
        *((word, Status.PASS) for word in ("pass", "OK", "Up", " pass ")),
        *((word, Status.WARN) for word in ("warn", "WARN", "unknown")),
        *((word, Status.FAIL) for word in ("fail", "Error", "DOWN", "out_of_service")),
    ],
)
def test_every_alias_in_any_case(word: str, status: Status) -> None:
    document = understand(json.dumps({"Status": word}).encode(), now=NOW)
    assert document.status is status
    assert document.health is not None
    assert document.health.checks == ()
    assert understand(word.encode(), now=NOW).status is status


def test_springs_shape() -> None:
    spring = {"status": "DOWN", "components": {"db": {"status": "DOWN"}, "disk": {"status": "UP"}}}
    document = understand(json.dumps(spring).encode(), now=NOW)
    assert document.health is not None
    assert [(c.name, c.status) for c in document.health.checks] == [
        ("db", Status.FAIL),
        ("disk", Status.PASS),
    ]


@pytest.mark.parametrize(
    ("body", "remark"),
    [
        pytest.param(b"", "empty", id="empty"),
        pytest.param(b"<html>fine</html>", "not a health document", id="html"),
        pytest.param(b"{nope", "not JSON", id="broken"),
        pytest.param(b'{"a":' * 100_000, "not JSON", id="deep"),
        pytest.param(b"{}", "no status", id="no-status"),
        pytest.param(b'{"status": "fine"}', "'fine'", id="unknown-word"),
        pytest.param(b'{"status": 1}', "'1'", id="number"),
        pytest.param(b'{"status": "pass", "checks": []}', "not an object", id="checks-list"),
        pytest.param(b'{"status": "pass", "checks": {"a": 1}}', "'a'", id="check-number"),
        pytest.param(b"\xff\xfe\x00", "not a health document", id="bytes"),
    ],
)
def test_what_is_not_understood_is_remarked_on(body: bytes, remark: str) -> None:
    document = understand(body, now=NOW)
    assert any(remark in said for said in document.remarks), document.remarks


def test_odd_checks_are_read_and_not_guessed() -> None:
    body = {
        "status": "warn",
        "checks": {
            "a": {"status": "degraded", "time": "yesterday", "output": {"not": "text"}},
            "b": {"status": "pass", "output": "should not be here", "time": "2026-11-20T12:00:09"},
            "c": {"status": "fail", "output": "x" * 100_000, "time": "9999-12-31T23:59:59-23:59"},
        },
    }
    document = understand(json.dumps(body).encode(), now=NOW)
    assert document.health is not None
    a, b, c = document.health.checks
    assert a.status is Status.WARN
    assert a.output is not None
    assert "degraded" in a.output
    assert (a.time, b.output, b.age_s) == (NOW, None, 0.0)
    assert c.output is not None
    assert len(c.output) == 1024


@pytest.mark.parametrize(
    ("http", "body", "status", "disagrees"),
    [
        pytest.param(200, "pass", Status.PASS, False, id="pass"),
        pytest.param(200, "warn", Status.WARN, False, id="warn"),
        pytest.param(503, "fail", Status.FAIL, False, id="fail"),
        pytest.param(404, "fail", Status.FAIL, False, id="fail-4xx"),
        pytest.param(200, "fail", Status.WARN, True, id="body-says-fail"),
        pytest.param(503, "pass", Status.FAIL, True, id="code-says-fail"),
        pytest.param(200, "<p>", Status.PASS, True, id="200-of-anything"),
        pytest.param(500, "<p>", Status.FAIL, True, id="500-of-anything"),
        pytest.param(404, "<p>", None, True, id="wrong-path"),
        pytest.param(401, "<p>", None, True, id="not-asked-nicely"),
        pytest.param(302, "", None, True, id="redirected"),
    ],
)
def test_the_http_status_decides_and_the_disagreement_is_told(
    http: int, body: str, status: Status | None, disagrees: bool
) -> None:
    verdict = judge(http, understand(body.encode(), now=NOW))
    assert verdict.status is status
    assert bool(verdict.disagreements) is disagrees
    assert (verdict.why is None) is (status is not None)
