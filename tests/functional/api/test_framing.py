"""Request smuggling: what two servers could read in two ways is refused, and the connection ends."""

from __future__ import annotations

import re
import socket
from contextlib import suppress

import pytest
from tests.functional.api.live import Live

WAIT_S = 30
HOST = b"Host: 127.0.0.1\r\n"
BODY = b'{"reason": "x"}'
TYPED = HOST + b"Content-Type: application/json\r\n"
POST = b"POST /yaffle/v1/stop HTTP/1.1\r\n" + TYPED
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n"
SMUGGLED = b"GET /versions HTTP/1.1\r\n" + HOST + b"\r\n"


def sent(server: Live, data: bytes) -> bytes:
    """Send bytes and return all that comes until the server closes, or nothing comes any more."""
    host, _, port = server.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=WAIT_S) as sock:
        sock.sendall(data)
        return left(sock)


def left(sock: socket.socket) -> bytes:
    """Return what comes until the other side closes, which may well be with bytes of ours unread."""
    found = b""
    with suppress(ConnectionResetError):
        while piece := sock.recv(65_536):
            found += piece
    return found


ABUSES = {
    "a coding, then a length": CHUNKED + b"Content-Length: 4\r\n\r\n0\r\n\r\n",
    "a length, then a coding": POST
    + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 15\r\nContent-Length: 0\r\n\r\n" + BODY,
    "one length twice": POST + b"Content-Length: 15\r\nContent-Length: 15\r\n\r\n" + BODY,
    "a list of lengths": POST + b"Content-Length: 15, 15\r\n\r\n" + BODY,
    "a signed length": POST + b"Content-Length: +15\r\n\r\n" + BODY,
    "an empty length": POST + b"Content-Length:\r\n\r\n" + BODY,
    "LF after the request": b"GET /versions HTTP/1.1\n" + HOST + b"\r\n",
    "LF after a header": b"GET /versions HTTP/1.1\r\nHost: 127.0.0.1\nX: y\r\n\r\n",
    "LF for the empty line": b"GET /versions HTTP/1.1\r\n" + HOST + b"\n",
    "LF first": b"\nGET /versions HTTP/1.1\r\n" + HOST + b"\r\n",
    "CR in a value": b"GET /versions HTTP/1.1\r\n" + HOST + b"X: a\rContent-Length: 5\r\n\r\n",
    "a NUL": b"GET /versions HTTP/1.1\r\n" + HOST + b"X: a\0b\r\n\r\n",
    "a folded header": b"GET /versions HTTP/1.1\r\n" + HOST + b"X: a\r\n b\r\n\r\n",
    "a folded coding": POST + b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "a first header that is folded": b"GET /versions HTTP/1.1\r\n X: y\r\n" + HOST + b"\r\n",
    "a blank before the colon": POST + b"Content-Length : 15\r\n\r\n" + BODY,
    "a tab before the colon": POST + b"Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n",
    "another coding": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "identity": POST + b"Transfer-Encoding: identity\r\n\r\n",
    "two codings": CHUNKED + b"Transfer-Encoding: x\r\n\r\n0\r\n\r\n",
    "a coding twice": CHUNKED + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a coding with a control": POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "chunks in HTTP/1.0": CHUNKED.replace(b"1.1", b"1.0", 1) + b"\r\n0\r\n\r\n",
    "an extension": CHUNKED + b"\r\nf;a=b\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a long extension": CHUNKED + b"\r\nf;" + b"a" * 60_000 + b"\r\n",
    "an extension with LF": CHUNKED + b"\r\n2;\nxx\r\n0\r\n\r\n",
    "LF after a chunk's size": CHUNKED + b"\r\nf\n" + BODY + b"\r\n0\r\n\r\n",
    "LF after a chunk": CHUNKED + b"\r\nf\r\n" + BODY + b"\n0\r\n\r\n",
    "blanks after a chunk's size": CHUNKED + b"\r\nf \r\n" + BODY + b"\r\n0\r\n\r\n",
    "a signed chunk": CHUNKED + b"\r\n+f\r\n" + BODY + b"\r\n0\r\n\r\n",
    "a hexadecimal chunk": CHUNKED + b"\r\n0xf\r\n" + BODY + b"\r\n0\r\n\r\n",
    "too large a chunk": CHUNKED + b"\r\n" + b"f" * 17 + b"\r\n" + BODY + b"\r\n0\r\n\r\n",
    "LF for the end of trailers": CHUNKED + b"\r\n0\r\n\n",
    "a length among the trailers": CHUNKED + b"\r\n0\r\nContent-Length: +5\r\n\r\n",
}


@pytest.mark.parametrize("abuse", ABUSES.values(), ids=ABUSES)
def test_what_can_be_read_in_two_ways_is_refused(server: Live, abuse: bytes) -> None:
    # What is larger may come in pieces; closing on an unread one would take the answer with it.
    answer = sent(server, abuse + SMUGGLED if len(abuse) < 1000 else abuse)
    # One answer, and no second one to whatever came after: the connection is over.
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert len(re.findall(rb"HTTP/1\.1 \d", answer)) == 1
    assert b"connection: close" in answer.lower()


def test_it_is_said_what_was_wrong(server: Live) -> None:
    assert sent(server, ABUSES["a length, then a coding"]).count(
        b"Invalid HTTP request received: there are Content-Length and Transfer-Encoding."
    )


def test_a_fault_after_the_answer_ends_the_connection(server: Live) -> None:
    # Refused for its Host before its body is there; then the body makes no sense.
    head = CHUNKED.replace(b"127.0.0.1", b"evil.example.org") + b"\r\n"
    host, _, port = server.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=WAIT_S) as sock:
        sock.sendall(head)
        assert sock.recv(65_536).startswith(b"HTTP/1.1 421 ")
        sock.sendall(b"f\n\r\n" + SMUGGLED)
        assert b"HTTP/1.1 " not in left(sock)


def test_what_clients_send_is_read(server: Live) -> None:
    end = b"GET /versions HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"
    for ask in (
        POST + b"Content-Length: 15\r\n\r\n" + BODY,
        POST + b"content-length:15\r\n\r\n" + BODY,
        POST + b"Content-Length: \t 15 \t\r\n\r\n" + BODY,
        CHUNKED + b"\r\nF\r\n" + BODY + b"\r\n0\r\n\r\n",
        CHUNKED + b"\r\n00f\r\n" + BODY + b"\r\n0\r\nX-Sum: 1\r\n\r\n",
        POST
        + b"Transfer-Encoding: Chunked\r\n\r\n5\r\n"
        + BODY[:5]
        + b"\r\na\r\n"
        + BODY[5:]
        + b"\r\n0\r\n\r\n",
    ):
        answer = sent(server, ask + end)
        assert answer.startswith(b"HTTP/1.1 201 "), answer
        assert answer.count(b"HTTP/1.1 300 ") == 1
