"""An HTTP/1 answer taken apart: pure, bounded, and suspicious of everything that comes in.

The standard library's client waits afresh for every piece, so a peer that drips one byte a second
holds it for ever; this one is a function of the bytes so far, and whoever calls it owns the clock.
"""

from __future__ import annotations

import dataclasses
from typing import Final

HEAD_BYTES_MAX: Final = 64 * 1024
BODY_BYTES_MAX: Final = 1024 * 1024
# One check is about 100 bytes, so this is room for ten thousand of them and the framing of chunks.
ANSWER_BYTES_MAX: Final = HEAD_BYTES_MAX + 2 * BODY_BYTES_MAX


class Malformed(ValueError):
    """What came back is not an HTTP answer that we read; the message says why."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A complete answer. Header names are in lower case; of a repeated one the last counts."""

    status: int
    headers: dict[str, str]
    body: bytes


def parse(received: bytes, *, ended: bool) -> Answer | None:
    """Return the answer, or None while more has to come; raise Malformed if it never can be one.

    `ended` says that the peer closed its side: what is incomplete then stays so.
    """
    while True:
        head, blank, rest = _cut(received)
        if not blank:
            _look_at_the_beginning(received, ended=ended)
            return None
        # Not splitlines(): it would also cut at characters that a header may hold.
        lines = head.decode("latin-1").split("\n")
        status = _status(lines[0].rstrip("\r"))
        if not 100 <= status < 200:
            break
        # An interim answer (100 Continue, 103 Early Hints) comes before the real one.
        received = rest
    headers = dict(_header(line) for line in lines[1:])
    body = _body(status, headers, rest, ended=ended)
    return None if body is None else Answer(status=status, headers=headers, body=body)


def _cut(received: bytes) -> tuple[bytes, bytes, bytes]:
    head, blank, rest = received.partition(b"\r\n\r\n")
    # Servers written by hand end their lines with a bare \n.
    short, short_blank, short_rest = received.partition(b"\n\n")
    return (short, short_blank, short_rest) if len(short) < len(head) else (head, blank, rest)


def _look_at_the_beginning(received: bytes, *, ended: bool) -> None:
    if received and not b"HTTP/1.".startswith(received[:7]) and received[:7] != b"HTTP/1.":
        raise Malformed(f"it does not speak HTTP/1: it said {_shown(received)}")
    if ended and not received:
        raise Malformed("it closed the connection without a word")
    if ended:
        raise Malformed("it closed the connection in the middle of the headers")
    if len(received) > HEAD_BYTES_MAX:
        raise Malformed(f"its headers are longer than {HEAD_BYTES_MAX} bytes")


def _shown(received: bytes) -> str:
    return repr(received[:40].decode("utf-8", "replace"))


def _status(line: str) -> int:
    version, _, rest = line.partition(" ")
    code = rest.strip()[:3]
    if version not in {"HTTP/1.1", "HTTP/1.0"} or not (code.isascii() and code.isdigit()):
        raise Malformed(f"it does not speak HTTP/1: it said {line[:40]!r}")
    if not 100 <= int(code) < 600:
        raise Malformed(f"{code} is not an HTTP status")
    return int(code)


def _header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip().lower(), value.strip()


def _body(status: int, headers: dict[str, str], rest: bytes, *, ended: bool) -> bytes | None:
    if status in {204, 304}:
        return b""
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return _chunks(rest, ended=ended)
    length = headers.get("content-length")
    if length is None:
        if len(rest) > BODY_BYTES_MAX:
            raise Malformed(f"its body is longer than {BODY_BYTES_MAX} bytes")
        return rest if ended else None
    if not (length.isascii() and length.isdigit()) or len(length) > 15:
        raise Malformed(f"its Content-Length is {length[:40]!r}")
    if int(length) > BODY_BYTES_MAX:
        raise Malformed(f"its body of {length} bytes is longer than {BODY_BYTES_MAX}")
    return _whole(rest, int(length), ended=ended)


def _whole(rest: bytes, length: int, *, ended: bool) -> bytes | None:
    if len(rest) >= length:
        return rest[:length]
    if ended:
        raise Malformed(f"it closed the connection after {len(rest)} of {length} bytes")
    return None


def _chunks(rest: bytes, *, ended: bool) -> bytes | None:
    whole = bytearray()
    while True:
        line, newline, after = rest.partition(b"\n")
        if not newline:
            break
        size = _size(line)
        if size == 0:
            return bytes(whole)
        if len(whole) + size > BODY_BYTES_MAX:
            raise Malformed(f"its body is longer than {BODY_BYTES_MAX} bytes")
        if len(after) <= size:
            break
        whole += after[:size]
        rest = after[size:].removeprefix(b"\r").removeprefix(b"\n")
    if ended:
        raise Malformed("it closed the connection in the middle of a chunk")
    return None


def _size(line: bytes) -> int:
    digits = line.split(b";")[0].strip()
    try:
        # int() alone would take "-1", "0x10" and "1_0".
        return int(digits, 16) if digits.isalnum() and len(digits) <= 8 else _bad(digits)
    except ValueError:
        return _bad(digits)


def _bad(digits: bytes) -> int:
    raise Malformed(f"{_shown(digits)} is not the size of a chunk")
