"""Parser of HAProxy's log lines; anybody may have written one, and it may say anything.

HAProxy has no other way to tell: its log, as one datagram a line, in whichever of its formats
(`log … format`: local, rfc3164, rfc5424, priority, short, timed, iso, raw). The sentence has to begin
where the format's head ends. A line of a request's log quotes what a stranger has asked for, and is
never read as far as that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

LINE_MAX: Final = 2048
"""Bytes; HAProxy's own lines have 1,024 at most unless it is told otherwise."""
_NAME: Final = rb"[\w.:-]{1,128}"
"""As HAProxy allows for backends and servers, and a policy for pools."""
_HEAD: Final = (
    rb"(?:<\d{1,3}>)?"
    rb"(?:"
    rb"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?:[\w.:-]{1,255} )?[\w./-]{1,64}(?:\[\d{1,10}\])?: "
    rb"|1 [\w.:+-]{1,40} [\w.:-]{1,255} [\w./-]{1,64} [\w-]{1,128} [\w.-]{1,32} (?:-|\[[^\]]{0,512}\]) "
    rb"|\d{4}-\d\d-\d\dT[\d:.]{8,20}(?:Z|[+-]\d\d:\d\d) "
    rb")?"
)
_LINE: Final = re.compile(
    _HEAD + rb"(?:Health check for (?:backup )?server |(?:Backup )?Server )"
    rb"(?P<pool>" + _NAME + rb")/(?P<server>" + _NAME + rb")(?= )(?P<down> is DOWN[., ])?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Something is said to have happened to a server."""

    pool: str
    """HAProxy's backend."""
    server: str
    down: bool
    """Whether it is said to be out of rotation because its checks fail: HAProxy's own `fall` is over."""


def read(data: bytes) -> Line | None:
    """Return what a datagram says; None where it speaks of no server. Never raises."""
    found = _LINE.match(data)
    if found is None:
        return None
    return Line(
        pool=found["pool"].decode(), server=found["server"].decode(), down=found["down"] is not None
    )
