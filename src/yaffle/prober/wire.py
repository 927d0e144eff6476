"""Wire between engine and prober: msgpack structs in length-prefixed frames.

Both ends are the same installation, so there is no version in it; field order is the format.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

FRAME_BYTES_MAX: Final = 64 * 1024 * 1024
"""A schedule of 100,000 long URLs fits; more is a bug on the other side."""

LENGTH: Final = struct.Struct(">I")


class Options(msgspec.Struct, frozen=True, array_like=True):
    """`UrlOptions` without its template; seconds."""

    ssl_verify: bool
    healthy_response: str
    attempts: int
    retry_interval_s: float
    timeout_s: float
    keep_alive: bool


class Ask(msgspec.Struct, frozen=True, array_like=True):
    """A URL to ask on behalf of one node; `id` comes back with every result."""

    id: int
    node_id: str
    url: str


class Configure(msgspec.Struct, frozen=True, array_like=True, tag="configure"):
    """Sent first on every connection. Networks are CIDR texts; `ca_file` is added to the system's."""

    allow: list[str]
    deny: list[str]
    ca_file: str
    sockets_max: int


class Schedule(msgspec.Struct, frozen=True, array_like=True, tag="schedule"):
    """Ask each of `asks` every `interval_s`; replaces the watch. Equal ids mean: nothing changed."""

    watch_id: str
    options: Options
    interval_s: float
    asks: list[Ask]


class Unschedule(msgspec.Struct, frozen=True, array_like=True, tag="unschedule"):
    """Stop that watch, if there is one."""

    watch_id: str


class Probe(msgspec.Struct, frozen=True, array_like=True, tag="probe"):
    """Ask each once, now; the answer comes within `deadline_s`."""

    request_id: int
    options: Options
    deadline_s: float
    asks: list[Ask]


class Ping(msgspec.Struct, frozen=True, array_like=True, tag="ping"):
    """A sign of life that is asked for, answered by `Pong` with the same number."""

    number: int


class Seen(msgspec.Struct, frozen=True, array_like=True):
    """A result, by the id of its `Ask`."""

    id: int
    code: str
    detail: str
    at_us: int
    took_us: int


class Results(msgspec.Struct, frozen=True, array_like=True, tag="results"):
    """A batch, of any watches."""

    seen: list[Seen]


class Answer(msgspec.Struct, frozen=True, array_like=True, tag="answer"):
    """Everything that one `Probe` asked for, in any order."""

    request_id: int
    seen: list[Seen]


class Late(msgspec.Struct, frozen=True, array_like=True, tag="late"):
    """The prober could not look for `lost_s` seconds, or had to drop results: why says which."""

    lost_s: float
    why: str


class Pong(msgspec.Struct, frozen=True, array_like=True, tag="pong"):
    """Alive, and how it goes; counters since the start of the process."""

    number: int
    checks: int
    in_flight: int
    waiting: int
    lost_s: float
    lag_s_max: float
    dropped: int
    rss_bytes: int


Request = Configure | Schedule | Unschedule | Probe | Ping
Reply = Results | Answer | Late | Pong

_encoder: Final = msgspec.msgpack.Encoder()
requests: Final = msgspec.msgpack.Decoder(Request)
replies: Final = msgspec.msgpack.Decoder(Reply)


def frame(message: msgspec.Struct) -> bytes:
    """Return `message` ready for the pipe."""
    body = _encoder.encode(message)
    return LENGTH.pack(len(body)) + body


class Frames:
    """Cuts a byte stream into frames; bounded by `FRAME_BYTES_MAX`, beyond which it raises."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take what was received; yield every frame that is now whole."""
        buffer = self._buffer
        buffer += data
        start = 0
        while len(buffer) - start >= LENGTH.size:
            (length,) = LENGTH.unpack_from(buffer, start)
            if length > FRAME_BYTES_MAX:
                raise ValueError(f"a frame of {length} bytes: the stream is out of step")
            end = start + LENGTH.size + length
            if len(buffer) < end:
                break
            yield bytes(buffer[start + LENGTH.size : end])
            start = end
        del buffer[:start]
