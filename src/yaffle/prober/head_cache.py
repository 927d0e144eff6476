"""Answers whose head was read before are not parsed again: the same bytes mean the same.

A fleet that runs one program answers with the same head from every node, within the same second
where it holds a date. What is remembered is llhttp's own reading and never a second opinion: a
head that says how long the body is, followed by exactly so much, leaves nothing to be parsed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from yaffle.prober.response import COMPLETE

if TYPE_CHECKING:
    from yaffle.prober.response import Response

HEADS_MAX: Final = 256
_BLANK: Final = b"\r\n\r\n"


class Known(msgspec.Struct, frozen=True, gc=False):
    """A complete answer, as `Response` would have read it."""

    status: int
    content_type: str
    location: str
    keeps_alive: bool
    body: bytes
    ending: str = COMPLETE


class Heads:
    """Heads that were read, with one answer each that had them; bounded, for they may be anything."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, Known] = {}

    def recall(self, data: bytes) -> Known | None:
        """Return the whole answer that `data` is, where its head is known; else None."""
        head, blank, body = data.partition(_BLANK)
        known = self._known.get(head)
        # Without the blank line it is a piece, cut at the very end of a head whose body is empty.
        if known is None or not blank or len(known.body) != len(body):
            return None
        if known.body == body:
            return known
        return Known(known.status, known.content_type, known.location, known.keeps_alive, body)

    def learn(self, data: bytes, response: Response) -> None:
        """Remember the head of `data`, all that `response` was fed before it had ended."""
        head, _, body = data.partition(_BLANK)
        # Not so for anything unusual: an interim answer, chunks, bare line feeds, bytes too many.
        if response.ending == COMPLETE and response.body == body:
            if len(self._known) >= HEADS_MAX:
                self._known.clear()
            self._known[head] = Known(
                response.status,
                response.content_type,
                response.location,
                response.keeps_alive,
                body,
            )
