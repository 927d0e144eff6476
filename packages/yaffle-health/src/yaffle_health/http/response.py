"""An answer as data, and as the bytes of its one write: the length is always stated, the
connection always closes, no software is named and nobody is redirected."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Mapping
from typing import Final

from yaffle_health.http.request import Refusal

REASONS: Final[Mapping[int, str]] = {
    200: "OK",
    204: "No Content",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    414: "URI Too Long",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()  # noqa: SIM905 - reads better

Headers = tuple[tuple[str, str], ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Response:
    """Status, headers without those of the connection, and the body that a GET would get.

    `drain`: the client may still be sending; closing at once would reset the connection under the
    answer, so what comes is thrown away for a moment.
    """

    status: int
    headers: Headers = ()
    body: bytes = b""
    head_only: bool = False
    drain: bool = False

    def encode(self, now_s: float) -> bytes:
        """All of it; `now_s` is the wall clock, for Date (RFC 9110 §6.6.1)."""
        fields = "".join([f"{name}: {value}\r\n" for name, value in self.headers])
        # RFC 9110 §8.6: no Content-Length in a 204.
        length = "" if self.status == 204 else f"Content-Length: {len(self.body)}\r\n"
        head = (
            f"HTTP/1.1 {self.status} {REASONS[self.status]}\r\nDate: {date(int(now_s))}\r\n{fields}"
            f"{length}X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
        ).encode("latin-1")
        return head if self.head_only else head + self.body


@functools.lru_cache(maxsize=2)
def date(now_s: int) -> str:
    """An HTTP date, in English whatever the locale."""
    at = time.gmtime(now_s)
    return (
        f"{_DAYS[at.tm_wday]}, {at.tm_mday:02} {_MONTHS[at.tm_mon - 1]} {at.tm_year} "
        f"{at.tm_hour:02}:{at.tm_min:02}:{at.tm_sec:02} GMT"
    )


def said(status: int, why: str, *, head_only: bool = False, drain: bool = False) -> Response:
    """Say a sentence with that status; no cache may keep it."""
    headers = (("Content-Type", "text/plain; charset=utf-8"), ("Cache-Control", "no-store"))
    return Response(status, headers, why.encode() + b"\n", head_only, drain)


def refused(refusal: Refusal, *, head_only: bool = False) -> Response:
    """Say why a request was not even looked at."""
    return said(refusal.status, refusal.why, head_only=head_only, drain=True)
