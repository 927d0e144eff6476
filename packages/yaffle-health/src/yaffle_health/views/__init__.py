"""One health, five faces: pure functions from a `Health` to the bytes that a client reads."""

from __future__ import annotations

from yaffle_health.views.render import http_status, render, shown
from yaffle_health.views.shapes import CONTENT_TYPES, Shape, first, negotiate

__all__ = ["CONTENT_TYPES", "Shape", "first", "http_status", "negotiate", "render", "shown"]
