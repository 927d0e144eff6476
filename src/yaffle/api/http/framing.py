"""Request framing: what another server could read otherwise is refused.

h11 is as kind to clients as the RFCs allow: it takes a lone LF for the end of a line, unfolds folded
headers, and lets Transfer-Encoding win over a Content-Length. A proxy in front of us that reads one of
these in another way sees other requests than we do, and whoever sends them slips one past it
(request smuggling). No client of ours sends any of this.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import h11
from h11._receivebuffer import ReceiveBuffer

_CHUNK: Final = re.compile(rb"[0-9A-Fa-f]{1,16}\r\n")


class StrictBuffer(ReceiveBuffer):
    """h11's buffer, which refuses lines that can be read in two ways."""

    def __init__(self) -> None:
        super().__init__()
        self.fault = ""
        """What was refused; empty while nothing was."""
        self._raw = b""

    def _extract(self, count: int) -> bytearray:
        found = super()._extract(count)
        self._raw = bytes(found)
        return found

    def maybe_extract_lines(self) -> list[bytearray] | None:
        """Return the lines of a head or of trailers."""
        lines = super().maybe_extract_lines()
        if lines is not None:
            self._refuse(lines_fault(self._raw, lines))
        return lines

    def maybe_extract_next_line(self) -> bytearray | None:
        """Return the line before a chunk."""
        line = super().maybe_extract_next_line()
        if line is not None and not _CHUNK.fullmatch(line):
            self._refuse("a chunk begins with more than its size")
        return line

    def _refuse(self, fault: str | None) -> None:
        if fault is not None:
            self.fault = fault
            raise h11.LocalProtocolError(fault)


def strictly(conn: h11.Connection) -> StrictBuffer:
    """Have a connection, which has not read anything yet, read strictly; return its buffer."""
    buffer = StrictBuffer()
    conn._receive_buffer = buffer  # noqa: SLF001 - h11 has no other way; the lock pins its version
    return buffer


def lines_fault(raw: bytes, lines: Sequence[bytes | bytearray]) -> str | None:
    """Return what could be read in two ways in a head or in trailers; None where nothing could.

    `raw` is what came, `lines` the same without the ends of lines and the empty line after them.
    """
    ends = raw.count(b"\r\n")
    if raw.count(b"\n") != ends or raw.count(b"\r") != ends:
        return "a line ends in something else than CR LF"
    if any(line[:1] in (b" ", b"\t") for line in lines):
        return "a header is folded"
    version = b""
    if lines and lines[0].rpartition(b" ")[2].startswith(b"HTTP/"):
        version, lines = bytes(lines[0][-8:]), lines[1:]
    found: dict[bytes, list[bytes]] = {}
    for line in lines:
        name, _, value = bytes(line).partition(b":")
        if name != name.rstrip():
            return "a blank stands before the colon of a header"
        found.setdefault(name.lower(), []).append(value.strip(b" \t"))
    return _framing_fault(
        version, found.get(b"content-length", []), found.get(b"transfer-encoding", [])
    )


def _framing_fault(version: bytes, lengths: list[bytes], codings: list[bytes]) -> str | None:
    if lengths and codings:
        return "there are Content-Length and Transfer-Encoding"
    if len(lengths) > 1 or not all(length.isdigit() for length in lengths):
        return "Content-Length is not one number"
    if codings and [coding.lower() for coding in codings] != [b"chunked"]:
        return "Transfer-Encoding is something else than chunked"
    if codings and version != b"HTTP/1.1":
        return "only HTTP/1.1 has a Transfer-Encoding"
    return None
