"""From a health and a shape to bytes: always valid UTF-8, no NaN, keys sorted, ending in a newline."""

from __future__ import annotations

import json
from collections.abc import Mapping

from yaffle_health.model import Health
from yaffle_health.views.documents import Json, ietf, nova, spring
from yaffle_health.views.exposition import exposition
from yaffle_health.views.shapes import Shape

# One encoder for all: json.dumps() with arguments makes a new one each time.
_ENCODER = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
)


def render(health: Health, shape: Shape) -> bytes:
    """Show that health in that shape."""
    match shape:
        case Shape.NOVA:
            return _json(nova(health))
        case Shape.IETF:
            return _json(ietf(health))
        case Shape.SPRING:
            return _json(spring(health))
        case Shape.PROMETHEUS:
            return _utf8(exposition(health))
        case Shape.TEXT:
            return _utf8(health.status.value + "\n")


def shown(health: Health) -> object:
    """All that a document shows of a health: equal where its documents are equal.

    Prometheus' face shows more, the ages, which never stand still.
    """
    checks = [
        (
            check.name,
            check.component_id,
            check.component_type,
            check.status,
            check.output,
            check.expired,
            check.last_status,
            check.time.replace(microsecond=0),
        )
        for check in health.checks
    ]
    return health.status, health.service, checks


def http_status(health: Health, shape: Shape) -> int:
    """200 for pass and warn, 503 for fail; for Prometheus always 200."""
    return 200 if shape is Shape.PROMETHEUS else health.status.http_status


def _json(document: Mapping[str, Json]) -> bytes:
    return _utf8(_ENCODER.encode(document) + "\n")


def _utf8(text: str) -> bytes:
    # An output may hold half a surrogate pair, from a file name or a cut string.
    return text.encode("utf-8", errors="replace")
