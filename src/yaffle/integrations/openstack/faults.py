"""Meaning of a cloud's refusals and silences: one table from an HTTP status to our own errors.

    what came                                     raised
    2xx                                           nothing
    404 with the service's own words for it       NotFound
    404 with anything else (a proxy, a typo)      CloudUnavailable
    409                                           Conflict
    403 or 413 that speaks of a quota             OverQuota
    403                                           Forbidden
    400, 405, 406, 422                            BadRequest
    401 after a second token, 429, 5xx, silence   CloudUnavailable

Unavailable means unknown: neither that something is so, nor that it is not.
"""

from __future__ import annotations

import re

import msgspec

from yaffle.errors import (
    BadRequest,
    Conflict,
    DependencyError,
    Forbidden,
    NotFound,
    OverQuota,
    YaffleError,
)

_TEXT_MAX = 400
_MISSING = "ResourceNotFound"
_NO_TRUST = "Could not find trust"
_NO_IMAGE = re.compile(r"(?:No image found with ID|Failed to find image) [\w-]+")
"""Glance answers with a page for people; no proxy's page has these words of its own."""
_NOT_FOUND = frozenset({"itemNotFound", "Client", "EntityNotFound", "NeutronError", _MISSING})
"""What Nova, Mistral, Heat and Neutron call it; a proxy in between calls it otherwise."""


class CloudUnavailable(DependencyError):
    """The cloud gave no usable answer; `sent` says whether it may have acted on the request."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class CloudBusy(CloudUnavailable):
    """Our own queue is full, or the deadline passed in it: nothing was sent."""

    def __init__(self, message: str) -> None:
        super().__init__(message, sent=False)


class CredentialMissing(CloudUnavailable):
    """Raised where there is nothing to ask with for that project: nothing was sent."""

    def __init__(self, message: str) -> None:
        super().__init__(message, sent=False)


class CredentialRefused(CloudUnavailable):
    """Keystone does not accept what a project has handed to us; what was asked for was not sent."""

    def __init__(self, message: str) -> None:
        super().__init__(message, sent=False)


def fault_of(status: int, body: bytes, what: str, *, acts: bool) -> YaffleError:
    """Return the error that an answer other than 2xx means.

    `what` was asked, for the message; `acts`: to change something.
    """
    word, told = _told(body)
    text = f"{what}: {told} (HTTP {status})"
    match status:
        case 404 if word in _NOT_FOUND:
            return NotFound(text)
        case 409:
            return Conflict(text)
        case 403 | 413 if "quota" in told.lower():
            return OverQuota(text)
        case 403:
            return Forbidden(text)
        case 400 | 405 | 406 | 413 | 422:
            return BadRequest(text)
        case 401:
            return CloudUnavailable(f"{text}; a new token did not help", sent=False)
        case 429:
            return CloudUnavailable(text, sent=False)
        case _:
            # A gateway's 5xx says nothing of what stands behind it.
            return CloudUnavailable(text, sent=acts and status >= 500)


def _told(body: bytes) -> tuple[str, str]:
    """Return the service's word for the fault, and its message: `{"itemNotFound": {"message": …}}`."""
    try:
        document = msgspec.json.decode(body) if body else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # A byte that is no UTF-8, or brackets in brackets: neither is a DecodeError.
        document = body[:_TEXT_MAX].decode("utf-8", "replace")
    match document:
        case {"error": {"message": str(message), "title": str(word)}}:
            # Keystone's shape, which entitles everything "Not Found", as proxies do.
            return _MISSING if message.startswith(_NO_TRUST) else word, _line(message)
        case {"code": int(), "title": str(word), "description": str(message)}:
            # Octavia's, which entitles a pool that is not there "Bad Request".
            return _MISSING if message.endswith(" not found.") else word, _line(message)
        case {"error": {"message": str(message), "type": str(word)}}:
            # Heat's shape.
            return word, _line(message)
        case {"faultstring": str(message), "faultcode": str(word)}:
            # Mistral's shape.
            return word, _line(message)
        case dict() if len(document) == 1:
            ((word, inner),) = document.items()
            if isinstance(inner, dict) and isinstance(inner.get("message"), str):
                return str(word), _line(inner["message"])
    text = str(document) if document else "no explanation"
    if found := _NO_IMAGE.search(text):
        return _MISSING, found[0]
    return "", _line(text)


def _line(text: str) -> str:
    return " ".join(text.split())[:_TEXT_MAX]
