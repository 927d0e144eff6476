"""What may come where an answer was expected: bodies that are none, and good ones with a wrong place."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

GARBAGE: Final[Mapping[str, bytes]] = {
    "empty": b"",
    "blank": b" \r\n\t",
    "html": b"<!DOCTYPE html><html><body>Log in, please</body></html>",
    "null": b"null",
    "true": b"true",
    "a number": b"7",
    "a text": b'"ok"',
    "a list": b"[]",
    "an object": b"{}",
    "objects in lists": b"[{}, [{}], null]",
    "not a number": b"NaN",
    "without an end": b'{"servers": [Infinity, -Infinity, NaN]}',
    "too large a number": b'{"id": 1' + b"0" * 5000 + b"}",
    "too large an exponent": b'{"id": 1e99999}',
    "deep lists": b"[" * 200_000,
    "deep objects": b'{"a":' * 200_000,
    "deep and whole": b"[" * 100_000 + b"]" * 100_000,
    "not utf-8": b'{"id": "\xff\xfe\x80"}',
    "half a character": b'{"id": "\xe2\x82"}',
    "half a surrogate": b'{"id": "\\ud800", "state": "\\udfff"}',
    "a key twice": b'{"id": "1", "id": "2", "status": "running", "status": "done"}',
    "zeros": b"\x00" * 1000,
    "noise": bytes(range(256)) * 8,
    "a mark in front": b"\xef\xbb\xbf{}",
    "utf-16": '{"servers": []}'.encode("utf-16"),
    "two documents": b"{}{}",
    "compressed": b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03",
}
WRONG: Final[tuple[Any, ...]] = (
    None, True, 0, -1, 1.5, 10**30, 1e300, "", "x", "²", "\u2028\x00", "\ud800", "9" * 5000,
    [], [None], [[]], {}, {"": None}, {"id": {}},
)  # fmt: skip


def spoilt(document: Any) -> Iterator[bytes]:
    """Yield the document cut off everywhere, and with each wrong thing in each of its places."""
    whole = json.dumps(document).encode()
    step = max(1, len(whole) // 50)
    yield from (whole[:end] for end in range(0, len(whole), step))
    for wrong in WRONG:
        for other in _with(document, wrong):
            yield json.dumps(other).encode()


def _with(document: Any, wrong: Any) -> Iterator[Any]:
    """Yield copies of the document, each with one place that is wrong, and each with one less."""
    yield wrong
    if isinstance(document, dict):
        for key, value in document.items():
            yield {k: v for k, v in document.items() if k != key}
            yield from ({**document, key: other} for other in _with(value, wrong))
    elif isinstance(document, list):
        for at, value in enumerate(document):
            yield from (
                [*document[:at], other, *document[at + 1 :]] for other in _with(value, wrong)
            )
