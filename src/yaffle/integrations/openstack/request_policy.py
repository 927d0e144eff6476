"""Policy of requests to a cloud, asked below every driver, where all of them pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

Passes = Callable[[str, str], bool]
"""Takes a request's method and its URL."""

_QUESTIONS: Final = frozenset({"GET", "HEAD"})
_TOKENS: Final = "/v3/auth/tokens"
"""To ask for a token is a POST, and changes nothing but the list of tokens."""


def everything(_method: str, _url: str) -> bool:
    """Let all pass."""
    return True


def questions(method: str, url: str) -> bool:
    """Let pass what only reads, and what asks Keystone for a token."""
    if method in _QUESTIONS:
        return True
    return method == "POST" and urlsplit(url).path.endswith(_TOKENS)
