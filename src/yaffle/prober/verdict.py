"""Says which row of the outcome table an answer is: status, pattern, or the health document.

Without a pattern 2xx passes, and for application/health+json the document's status. With a pattern
the status must still be 2xx, and the pattern decides. Where the HTTP code and the document
disagree the code wins, and the detail says so (ADR 0020 of yaffle-health).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, Protocol

import re2

from yaffle.core.health import health_json
from yaffle.model.health import Outcome
from yaffle.prober.response import COMPLETE

if TYPE_CHECKING:
    from yaffle.core.health.health_json import HealthDocument

_REDIRECTS: Final = (301, 302, 303, 307, 308)
_ENDINGS: Final = {
    "L7-SHORT": "the connection ended inside the answer",
    "L7-CLOSED": "the connection was closed without an answer",
    "L7-TOO-LARGE": "the answer is larger than the limit",
    "L7-INVALID": "not valid HTTP",
}


# The same few types come again and again, and taking one apart costs more than looking it up.
_is_health_json: Final = functools.lru_cache(maxsize=256)(health_json.is_health_json)


class Answer(Protocol):
    """An HTTP answer, read to its end; `Response` says what the fields mean."""

    @property
    def status(self) -> int:
        """0 where there were no whole headers."""
        ...

    @property
    def ending(self) -> str | None:
        """COMPLETE, or the row that says what was wrong."""
        ...

    @property
    def content_type(self) -> str:
        """Empty where there was none."""
        ...

    @property
    def location(self) -> str:
        """Empty where there was none."""
        ...

    @property
    def body(self) -> bytes:
        """The body without transfer coding."""
        ...

    @property
    def keeps_alive(self) -> bool:
        """Whether its connection may be used again."""
        ...


class _Compiled(Protocol):
    """The part of google-re2 that is used."""

    def search(self, text: str | bytes, /) -> object | None:
        """Return a match or None."""
        ...


class Pattern:
    """A compiled expression; it remembers its last search, for the healthy say the same again."""

    __slots__ = ("_body", "_compiled", "_found")

    def __init__(self, compiled: _Compiled) -> None:
        self._compiled = compiled
        self._body: bytes | None = None
        self._found = False

    def found_in(self, body: bytes) -> bool:
        """Whether it matches anywhere in `body`, read as UTF-8."""
        if body != self._body:
            # Without a detour over `str`, google-re2's own search takes half the time.
            text = body if body.isascii() else body.decode("utf-8", "replace")
            self._found = self._search(text)
            self._body = body
        return self._found

    def _search(self, text: str | bytes) -> bool:
        search = self._compiled.search
        if search(text):
            return True
        # Patterns come from users of Python's `re`, where `$` also matches before a last line break.
        if isinstance(text, bytes):
            return text.endswith(b"\n") and bool(search(text[:-1]))
        return text.endswith("\n") and bool(search(text[:-1]))


def compile_pattern(text: str) -> Pattern | None:
    """Return the pattern, None for an empty one; raise ValueError where it does not compile."""
    if not text:
        return None
    options = re2.Options()
    options.log_errors = False
    try:
        compiled: _Compiled = re2.compile(text, options)
    except re2.error as error:
        raise ValueError(_text(error.args[0])) from None
    return Pattern(compiled)


def _text(why: object) -> str:
    return why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)


def judge(response: Answer, pattern: Pattern | None) -> tuple[str, str]:
    """Return the row and what to say after the URL."""
    status = response.status
    if status and not 200 <= status < 300:
        return _refusal(response, status)
    if response.ending != COMPLETE:
        code = response.ending or "L7-SHORT"
        what = _ENDINGS.get(code, code)
        return code, f"{status}, but {what}" if status else what
    if pattern is not None:
        if pattern.found_in(response.body):
            return "L7-OK", f"{status}, the body matches"
        return "L7-PATTERN", f"{status}, but the body does not match the pattern"
    if _is_health_json(response.content_type):
        return _document(status, health_json.read(response.body))
    return "L7-OK", str(status)


def _refusal(response: Answer, status: int) -> tuple[str, str]:
    if status in _REDIRECTS:
        return "L7-REDIRECT", f"{status}, redirects to {_shown(response.location)} (not followed)"
    if response.ending != COMPLETE or not _is_health_json(response.content_type):
        return "L7-STATUS", str(status)
    document = health_json.read(response.body)
    if document.status is Outcome.FAIL:
        return "L7-FAIL", f"{status}, {_said(document)}"
    return "L7-STATUS", f"{status}, although {_said(document)}"


def _document(status: int, document: HealthDocument) -> tuple[str, str]:
    if document.status is Outcome.WARN:
        return "L7-WARN", f"{status}, {_said(document)}"
    if document.status is Outcome.PASS:
        return "L7-OK", f"{status}, {_said(document)}"
    return "L7-OK", f"{status}, although {_said(document)}"


def _said(document: HealthDocument) -> str:
    if document.status is Outcome.UNKNOWN:
        return document.detail
    said = f"the document says {document.status}"
    about = ": ".join(part for part in (document.worst, document.detail) if part)
    return f"{said} ({about})" if about else said


def _shown(location: str) -> str:
    """A Location for people: bounded, printable, without its query."""
    plain = location.partition("?")[0][:150]
    return "".join(c if c.isprintable() else "?" for c in plain) or "nowhere"
