"""Reads one HTTP answer in whatever pieces it comes, within limits, and says how it ended.

The result does not depend on how the bytes were cut. llhttp does the parsing; what it leaves to its
caller is here: limits, interim (1xx) answers, bodies that end with the connection, and what an end
of the connection means at each point.
"""

from __future__ import annotations

from typing import Final

import httptools

HEADER_BYTES_MAX: Final = 16 * 1024
"""Status lines and headers, interim answers included."""
BODY_BYTES_MAX: Final = 512 * 1024
RAW_BYTES_MAX: Final = 4 * 1024 * 1024
"""Everything received, chunk sizes, extensions and trailers included."""

COMPLETE: Final = ""
_INTERIM: Final = range(100, 200)


class Response:
    """The parser of one answer. Feed it until it returns True, or the connection ends."""

    __slots__ = (
        "_body",
        "_body_bytes",
        "_framed",
        "_headers_done",
        "_interim",
        "_may_stay",
        "_parser",
        "_raw_bytes",
        "_surplus",
        "content_type",
        "ending",
        "location",
        "status",
    )

    def __init__(self) -> None:
        parser = httptools.HttpResponseParser(self)
        # A small device that ends its lines with a bare LF is not a dead node.
        parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True)
        self._parser: httptools.HttpResponseParser | None = parser
        self._raw_bytes = 0
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._headers_done = False
        self._framed = False
        self._interim = False
        self._surplus = False
        self._may_stay = False
        self.ending: str | None = None
        """None while it goes on; then COMPLETE or the row that says what was wrong."""
        self.status = 0
        """0 until the headers of the final answer are complete."""
        self.content_type = ""
        self.location = ""

    @property
    def body(self) -> bytes:
        """The body received so far, without transfer coding; at most BODY_BYTES_MAX."""
        return b"".join(self._body)

    @property
    def untouched(self) -> bool:
        """Whether nothing at all was received."""
        return not self._raw_bytes

    @property
    def keeps_alive(self) -> bool:
        """Whether the answer is complete and its connection may be used again."""
        return self._may_stay and not self._surplus

    def feed(self, data: bytes) -> bool:
        """Take what was received; True when the answer has ended, well or not."""
        parser = self._parser
        if parser is None or self.ending is not None:
            return True
        try:
            if self._headers_done:
                self._feed(parser, data)
            else:
                self._feed_headers(parser, data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._surplus = True
            self._end("L7-INVALID")
        return self.ending is not None

    def _feed(self, parser: httptools.HttpResponseParser, data: bytes) -> None:
        room = RAW_BYTES_MAX - self._raw_bytes
        self._raw_bytes += len(data)
        parser.feed_data(data[:room] if len(data) > room else data)
        if len(data) > room:
            self._end("L7-TOO-LARGE")

    def _feed_headers(self, parser: httptools.HttpResponseParser, data: bytes) -> None:
        """Feed headers, and stop exactly at their limit, so that the cut does not matter."""
        room = HEADER_BYTES_MAX - self._raw_bytes
        if len(data) <= room:
            self._feed(parser, data)
            return
        self._feed(parser, data[:room])
        if not self._headers_done:
            self._end("L7-TOO-LARGE")
        elif self.ending is None:
            self._feed(parser, data[room:])

    def connection_ended(self) -> None:
        """The other side closed: that ends the answer, well or not."""
        if self.ending is not None:
            return
        if self._headers_done:
            self._end("L7-SHORT" if self._framed else COMPLETE)
        else:
            self._end("L7-SHORT" if self._raw_bytes else "L7-CLOSED")

    def release(self) -> None:
        """Drop the parser: it refers back to us, and a cycle would wait for the collector."""
        self._parser = None

    def _end(self, ending: str) -> None:
        # The first ending in the order of the bytes is the one; what follows it is not ours.
        if self.ending is None:
            self.ending = ending

    # --- called by llhttp ---

    def on_message_begin(self) -> None:
        """A second answer without a question makes the connection useless."""
        self._surplus = self.ending is not None

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep what decides; interim answers have no such headers."""
        size = len(name)
        if self._headers_done:
            return  # a trailer
        if size == 14 and name.lower() == b"content-length":
            self._framed = True
        elif size == 12 and name.lower() == b"content-type":
            self.content_type = value.decode("latin-1")
        elif size == 17 and name.lower() == b"transfer-encoding":
            self._framed = value.lower().rstrip().endswith(b"chunked")
        elif size == 8 and name.lower() == b"location":
            self.location = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Know the status; an interim answer is passed over."""
        parser = self._parser
        if parser is None or self.ending is not None:
            return
        status = parser.get_status_code()
        self._interim = status in _INTERIM and status != 101
        if not self._interim:
            self.status = status
            self._headers_done = True

    def on_body(self, data: bytes) -> None:
        """Collect up to the limit."""
        if self.ending is not None:
            return
        self._body_bytes += len(data)
        if self._body_bytes > BODY_BYTES_MAX:
            self._end("L7-TOO-LARGE")
        else:
            self._body.append(data)

    def on_message_complete(self) -> None:
        """The end, unless it was an interim answer's."""
        if self._interim:
            self._interim = False
            self._framed = False
            self.content_type = self.location = ""
        elif self.ending is None and self._parser is not None:
            # llhttp knows this only until the next message begins.
            self._may_stay = self._parser.should_keep_alive()
            self._end(COMPLETE)
