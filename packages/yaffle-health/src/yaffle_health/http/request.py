"""The first bytes of a connection: a request, a refusal as soon as it is certain, or not yet enough.

Strict where two parties could understand different things (RFC 9112: control characters, folded
lines, a blank before the colon), lenient where plain tools are short: a bare LF, no Host header
(`printf 'GET /health HTTP/1.0\\n\\n' | nc`, HAProxy's httpchk). HTTP/0.9 is refused.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Final

LINE_MAX: Final = 8192
"""Bytes of the request line."""
HEAD_MAX: Final = 8192
"""Bytes of all header lines together."""
HEADERS_MAX: Final = 100

_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]"
_REQUEST_LINE = re.compile(rb"(" + _TOKEN + rb"{1,32}) ([\x21-\x7e]+) HTTP/([0-9])\.([0-9])\r?")
_NO_VERSION = re.compile(rb"[A-Za-z]+ +[\x21-\x7e]+ *\r?")
_BEGINNING = re.compile(_TOKEN + rb"{1,32}( |$)")
_HEADER = re.compile(rb"(" + _TOKEN + rb"+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*?)[ \t]*\r?")
_END = re.compile(rb"\n\r?\n")
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """What was asked. `more_follows`: the client sends, or says that it will send, a body."""

    method: str
    path: str
    query: str = ""
    accept: str = ""
    more_follows: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    """What is wrong with it: an HTTP status and a sentence."""

    status: int
    why: str


def parse(data: bytes, *, ended: bool = False) -> Request | Refusal | None:
    """Read what has come so far; None: wait for more. `ended`: no more will come."""
    start = _after_empty_lines(data)
    line_end = data.find(b"\n", start)
    if line_end < 0:
        return _unfinished_line(data[start : start + LINE_MAX + 1], ended=ended)
    if line_end - start > LINE_MAX:
        return _TOO_LONG
    line = _REQUEST_LINE.fullmatch(data, start, line_end)
    if line is None:
        return _bad_line(data[start:line_end])
    if line[3] != b"1":
        return Refusal(505, "only HTTP/1.0 and HTTP/1.1 are spoken here")
    head_end = _END.search(data, line_end)
    if head_end is None:
        return _unfinished_head(data, line_end, ended=ended)
    if head_end.end() - line_end > HEAD_MAX:
        return _TOO_MUCH
    request = _with_headers(line, data[line_end + 1 : head_end.start() + 1])
    if isinstance(request, Request) and len(data) > head_end.end():
        return dataclasses.replace(request, more_follows=True)
    return request


_TOO_LONG = Refusal(414, f"the request line may have {LINE_MAX} bytes")
_TOO_MUCH = Refusal(431, f"the headers may have {HEAD_MAX} bytes and be {HEADERS_MAX}")
_CUT_OFF = Refusal(400, "the request ends before its empty line")


def _after_empty_lines(data: bytes) -> int:
    """RFC 9112 §2.2: an empty line before the request is ignored; more than two are not."""
    start = 0
    for _ in range(2):
        if data.startswith(b"\r\n", start):
            start += 2
        elif data.startswith(b"\n", start):
            start += 1
    return start


def _unfinished_line(line: bytes, *, ended: bool) -> Refusal | None:
    if line and not line.startswith(b"\r") and not _BEGINNING.match(line):
        return Refusal(400, "this is no HTTP (TLS is not spoken here)")
    if len(line) > LINE_MAX:
        return _TOO_LONG
    return _CUT_OFF if ended and line else None


def _bad_line(line: bytes) -> Refusal:
    if _NO_VERSION.fullmatch(line):
        return Refusal(
            400, "HTTP/0.9 is not spoken here: write GET /health HTTP/1.0, then an empty line"
        )
    return Refusal(400, "this is no HTTP request line")


def _unfinished_head(data: bytes, line_end: int, *, ended: bool) -> Refusal | None:
    if len(data) - line_end > HEAD_MAX or data.count(b"\n", line_end) > HEADERS_MAX + 1:
        return _TOO_MUCH
    return _CUT_OFF if ended else None


def _with_headers(line: re.Match[bytes], head: bytes) -> Request | Refusal:
    fields = head.split(b"\n")[:-1]
    if len(fields) > HEADERS_MAX:
        return _TOO_MUCH
    accept: list[str] = []
    more_follows = False
    for field in fields:
        header = _HEADER.fullmatch(field)
        if header is None:
            return Refusal(400, "a header line is malformed")
        name = header[1].lower()
        if name == b"accept":
            accept.append(header[2].decode("latin-1"))
        elif name == b"transfer-encoding" or (name == b"content-length" and header[2] != b"0"):
            more_follows = True
    path, query = _target(line[2].decode("ascii"))
    return Request(line[1].decode("ascii"), path, query, ", ".join(accept), more_follows)


def _target(target: str) -> tuple[str, str]:
    """Path and query; the absolute form, which proxies send, means the same (RFC 9112 §3.2.2)."""
    if not target.startswith("/"):
        absolute = _ABSOLUTE.match(target)
        target = target[absolute.end() :] if absolute else target
    path, _, query = target.partition("#")[0].partition("?")
    return path, query
