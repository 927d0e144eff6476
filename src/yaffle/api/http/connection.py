"""HTTP connections: uvicorn's protocol with a deadline for each thing that a client owes us.

A client owes the first byte, the rest of a header, the rest of a body, the reading of an answer, and
then either the next request or its leave. `Room` looks at every connection once a second and ends those
that are overdue; while the room is full it ends those that have owed for longest.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from yaffle.api.http.client_shares import share_of
from yaffle.api.http.framing import strictly

if TYPE_CHECKING:
    from uvicorn.config import Config
    from uvicorn.server import ServerState

    from yaffle.api.http.connection_limits import Room

QUIET: Final = logging.getLogger("uvicorn.error.connection")
"""Says what fails here, and not what strangers send: a line for each would be their way to our disk."""
QUIET.setLevel(logging.ERROR)
WRITE_MIN: Final = 16 * 1024
"""Who reads less than this in `Deadlines.write_s` does not read (bytes)."""


def _last_words(status: str, text: str, *headers: str) -> bytes:
    head = "".join(f"{header}\r\n" for header in ("Connection: close", *headers))
    kind = f"Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(text)}"
    return f"HTTP/1.1 {status}\r\n{head}{kind}\r\n\r\n{text}".encode()


FULL: Final = _last_words(
    "503 Service Unavailable", "too many connections at once\n", "Retry-After: 1"
)
LATE: Final = _last_words("408 Request Timeout", "the header did not arrive in time\n")


class Phase(Enum):
    """The event that a connection waits for."""

    SILENT = "its first byte"
    HEADER = "the rest of a header"
    BODY = "the rest of a body"
    WORKING = "us"
    IDLE = "the next request"
    CLOSING = "its last bytes to be read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """The time that each thing may take that a client owes us (s)."""

    first_byte_s: float = 10.0
    header_s: float = 10.0
    body_s: float = 45.0
    """The gate answers 408 sooner; this ends bodies that nobody reads any more."""
    idle_s: float = 15.0
    write_s: float = 20.0

    def of(self, phase: Phase) -> float | None:
        """Return how long a phase may last; None where it is our turn."""
        return {
            Phase.SILENT: self.first_byte_s,
            Phase.HEADER: self.header_s,
            Phase.BODY: self.body_s,
            Phase.IDLE: self.idle_s,
        }.get(phase)


class Connection(H11Protocol):
    """uvicorn's connection, which `room` has a place for and ends when it is overdue."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        loop: asyncio.AbstractEventLoop,
        *,
        room: Room,
        deadlines: Deadlines,
        caller: tuple[str, int] | None = None,
    ) -> None:
        """`caller`: whom a proxy speaks for on it, by its PROXY header."""
        state: dict[str, Any] = {"yaffle.connection": self}
        super().__init__(config, server_state, state, loop)
        self.logger = QUIET
        self._framing = strictly(self.conn)
        self._room = room
        self._caller = caller
        self._deadlines = deadlines
        self._phase = Phase.SILENT
        self._since_s = loop.time()
        self._unread: tuple[float, int] | None = None
        """Since when how much of an answer has not been read."""
        self.peer = ""
        self.narrow = False
        """Whether it was let in beside the others, for what must be answered at any time."""

    # --- what happens to it ---

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a place, or say that there is none."""
        super().connection_made(transport)
        self.client = self._caller or self.client
        address = self.client[0] if self.client else ""
        self.peer = address if self._room.shares(address) else share_of(address)
        if self._room.take(self):
            return
        transport.write(FULL)
        transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        super().connection_lost(exc)
        self._room.leave(self)

    def data_received(self, data: bytes) -> None:
        """Take what came; nothing of a connection that is being closed."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        self._note(partial=True)

    def send_400_response(self, msg: str) -> None:
        """Refuse what makes no sense, by its reason where we know it; nothing more is read of it."""
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            fault = self._framing.fault
            super().send_400_response(f"{msg[:-1]}: {fault}." if fault else msg)
        else:
            # The answer was begun before its request had come to an end.
            self.transport.close()

    def on_response_complete(self) -> None:
        """Go on to the next request."""
        super().on_response_complete()
        self._note()

    def pause_writing(self) -> None:
        """Have the answer wait for the client, who is now the one who owes."""
        super().pause_writing()
        self._room.turn(self, theirs=True)

    def resume_writing(self) -> None:
        """Go on with the answer."""
        super().resume_writing()
        self._room.turn(self, theirs=self._phase is not Phase.WORKING)

    # --- what it waits for ---

    @property
    def is_unread(self) -> bool:
        """Whether an answer waits for its reader."""
        return self.flow is not None and self.flow.write_paused

    def _note(self, *, partial: bool = False) -> None:
        """Note what it waits for now, and since when."""
        now = self._now(partial=partial)
        if now is not self._phase:
            self._phase = now
            self._since_s = self.loop.time()
            self._room.turn(self, theirs=now is not Phase.WORKING)

    def _now(self, *, partial: bool) -> Phase:
        if self.transport.is_closing():
            return Phase.CLOSING
        if self.conn.their_state is h11.SEND_BODY:
            return Phase.BODY
        if self.cycle is not None and not self.cycle.response_complete:
            return Phase.WORKING
        if partial and self.conn.their_state is h11.IDLE:
            return Phase.HEADER
        return Phase.SILENT if self.cycle is None else Phase.IDLE

    def look(self, now_s: float) -> None:
        """End it if it is overdue."""
        unread = self.transport.get_write_buffer_size()
        if self._is_stuck(unread, now_s):
            self.abort()
            return
        allowed_s = self._deadlines.of(self._phase)
        if allowed_s is None or unread or now_s - self._since_s < allowed_s:
            return
        if self._phase is Phase.HEADER:
            self.transport.write(LATE)
        self.transport.close()
        self._note()

    def _is_stuck(self, unread: int, now_s: float) -> bool:
        """Whether nobody reads what was written."""
        if not unread:
            self._unread = None
            return False
        since_s, before = self._unread or (now_s, unread)
        # More than before: it was read, and then more was written.
        if unread > before or unread <= before - WRITE_MIN:
            since_s, before = now_s, unread
        self._unread = since_s, before
        return now_s - since_s >= self._deadlines.write_s

    def abort(self) -> None:
        """End it now, without its last bytes."""
        self.transport.abort()
