"""The first bytes of a connection, as a table: what is a request, what is refused, what is too short."""

from __future__ import annotations

import pytest

from yaffle_health.http.request import HEAD_MAX, HEADERS_MAX, LINE_MAX, Refusal, Request, parse

LEGITIMATE = [
    (b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n", Request("GET", "/health")),
    (b"GET /health HTTP/1.0\r\n\r\n", Request("GET", "/health")),
    (b"GET /health HTTP/1.0\n\n", Request("GET", "/health")),  # printf | nc
    (b"\r\nGET /health HTTP/1.1\r\n\r\n", Request("GET", "/health")),
    (b"HEAD /health?format=ietf&x HTTP/1.1\r\n\r\n", Request("HEAD", "/health", "format=ietf&x")),
    (b"GET http://h:80/health?a=b HTTP/1.1\r\n\r\n", Request("GET", "/health", "a=b")),
    (b"OPTIONS * HTTP/1.1\r\n\r\n", Request("OPTIONS", "*")),
    (b"BREW /pot HTTP/1.1\r\n\r\n", Request("BREW", "/pot")),
    (b"GET / HTTP/1.1\r\naCCept:  text/plain \r\n\r\n", Request("GET", "/", "", "text/plain")),
    (b"GET / HTTP/1.1\r\nAccept: a\r\nAccept: b\r\n\r\n", Request("GET", "/", "", "a, b")),
    (b"GET / HTTP/1.1\r\nX: \xff\xfe\r\n\r\n", Request("GET", "/")),
    (b"GET / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", Request("GET", "/")),
    (b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n", Request("POST", "/", more_follows=True)),
    (
        b"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        Request("PUT", "/", more_follows=True),
    ),
    (b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n", Request("GET", "/", more_follows=True)),
]

REFUSED = [
    pytest.param(b"GET /health\r\n", 400, id="http-0.9"),
    pytest.param(b"GET /health\n", 400, id="http-0.9 bare"),
    pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400, id="tls"),
    pytest.param(b"\x00\x00\x00\x00", 400, id="zeros"),
    pytest.param(b"\xff" * 100 + b"\r\n", 400, id="garbage line"),
    pytest.param(b"hello there, how are you\r\n", 400, id="prose"),
    pytest.param(b"GET  /health HTTP/1.1\r\n\r\n", 400, id="two blanks"),
    pytest.param(b"GET /a b HTTP/1.1\r\n\r\n", 400, id="blank in target"),
    pytest.param(b"GET /h HTTP/1.1 \r\n\r\n", 400, id="blank at end"),
    pytest.param(b"GET /h\x00 HTTP/1.1\r\n\r\n", 400, id="zero in target"),
    pytest.param(b"GET /\xe9 HTTP/1.1\r\n\r\n", 400, id="raw latin-1 in target"),
    pytest.param(b"G" * 40 + b" / HTTP/1.1\r\n\r\n", 400, id="long method"),
    pytest.param(b"\r\n\r\n\r\nGET / HTTP/1.1\r\n\r\n", 400, id="many empty lines"),
    pytest.param(b"GET / http/1.1\r\n\r\n", 400, id="lower case version"),
    pytest.param(b"GET / HTTP/2.0\r\n\r\n", 505, id="http-2"),
    pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, id="http-2 preface"),
    pytest.param(b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400, id="blank before colon"),
    pytest.param(b"GET / HTTP/1.1\r\n folded: a\r\n\r\n", 400, id="folded"),
    pytest.param(b"GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n", 400, id="folded value"),
    pytest.param(b"GET / HTTP/1.1\r\nnonsense\r\n\r\n", 400, id="no colon"),
    pytest.param(b"GET / HTTP/1.1\r\n: a\r\n\r\n", 400, id="no name"),
    pytest.param(b"GET / HTTP/1.1\r\nA: b\x00c\r\n\r\n", 400, id="zero in value"),
    pytest.param(b"GET / HTTP/1.1\r\nA: b\rc: d\r\n\r\n", 400, id="bare carriage return"),
    pytest.param(b"GET /" + b"x" * LINE_MAX, 414, id="long line, no end"),
    pytest.param(b"GET /" + b"x" * LINE_MAX + b" HTTP/1.1\r\n\r\n", 414, id="long line"),
    pytest.param(b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", 414, id="64 KiB line"),
    pytest.param(b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * (HEADERS_MAX + 1) + b"\r\n", 431, id="101"),
    pytest.param(b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * (HEADERS_MAX + 2), 431, id="102, no end"),
    pytest.param(b"GET / HTTP/1.1\r\nA: " + b"b" * HEAD_MAX + b"\r\n\r\n", 431, id="big header"),
    pytest.param(b"GET / HTTP/1.1\r\nA: " + b"b" * HEAD_MAX, 431, id="big header, no end"),
]

WHOLE = b"GET /health?group=live HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n"


@pytest.mark.parametrize(("data", "request_"), LEGITIMATE)
def test_is_understood(data: bytes, request_: Request) -> None:
    assert parse(data) == request_


@pytest.mark.parametrize(("data", "status"), REFUSED)
def test_is_refused(data: bytes, status: int) -> None:
    refusal = parse(data)
    assert isinstance(refusal, Refusal)
    assert refusal.status == status
    assert refusal.why


def test_the_limits_themselves_are_allowed() -> None:
    line = b"GET /" + b"x" * (LINE_MAX - len(b"GET / HTTP/1.1\r")) + b" HTTP/1.1\r\n"
    assert isinstance(parse(line + b"\r\n"), Request)
    assert isinstance(parse(b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * HEADERS_MAX + b"\r\n"), Request)


@pytest.mark.parametrize("size", range(len(WHOLE)))
def test_every_beginning_waits_for_more_and_its_end_is_refused(size: int) -> None:
    assert parse(WHOLE[:size]) is None
    cut_off = parse(WHOLE[:size], ended=True)
    assert cut_off is None if size == 0 else isinstance(cut_off, Refusal)


def test_the_way_it_is_cut_into_pieces_does_not_matter() -> None:
    assert parse(WHOLE) == Request("GET", "/health", "group=live", "*/*")
