"""Which face a client gets: `?format=` wins over the profile in Accept, which wins over the option.

Nothing that a client sends makes this fail: an unknown format or profile is as good as none, and
there is no 406 (ADR 0011).
"""

from __future__ import annotations

import enum
import re
import urllib.parse
from collections.abc import Mapping
from typing import Final


class Shape(enum.StrEnum):
    """The forms in which a health can be shown."""

    NOVA = "nova"
    """Seed 4: `checks` is an object of objects, `notes` an object. The default."""
    IETF = "ietf"
    """draft-inadarei-api-health-check-06: `checks` is an object of arrays, `notes` an array."""
    SPRING = "spring"
    """Spring Boot Actuator: UP or DOWN, and components."""
    PROMETHEUS = "prometheus"
    """Text exposition; its status is always 200, since a scraper throws the body of a 503 away."""
    TEXT = "text"
    """One word."""


CONTENT_TYPES: Final[Mapping[Shape, str]] = {
    Shape.NOVA: "application/health+json",
    Shape.IETF: "application/health+json",
    Shape.SPRING: "application/json",
    Shape.PROMETHEUS: "text/plain; version=0.0.4; charset=utf-8",
    Shape.TEXT: "text/plain; charset=utf-8",
}

_NAMES: Final[Mapping[str, Shape]] = {shape.value: shape for shape in Shape} | {
    "ietf-06": Shape.IETF,
    "seed": Shape.NOVA,
}
_PROFILE = re.compile(r';\s*profile\s*=\s*"?([A-Za-z0-9._-]{1,32})"?', re.IGNORECASE)
_NOT_WANTED = re.compile(r";\s*q\s*=\s*0(\.0*)?\s*(;|$)", re.IGNORECASE)


def negotiate(query: str, accept: str, default: Shape) -> Shape:
    """Choose by the query string (without "?"), then by the Accept header, then by the option."""
    if not query and not accept:
        return default
    asked = _NAMES.get((first(query, "format") or "").lower())
    return asked or _by_profile(accept) or default


def _by_profile(accept: str) -> Shape | None:
    if "profile" not in accept.lower():
        return None
    for media_range in accept.split(","):
        found = _PROFILE.search(media_range)
        if found and not _NOT_WANTED.search(media_range):
            shape = _NAMES.get(found[1].lower())
            if shape:
                return shape
    return None


def first(query: str, name: str) -> str | None:
    """The first value of that name in a query string; None if there is none."""
    if name not in query:
        return None
    for pair in query.split("&"):
        key, _, value = pair.partition("=")
        if key == name:
            return urllib.parse.unquote_plus(value)
    return None
