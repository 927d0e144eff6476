"""Encoding of JSON columns, whichever database keeps them."""

from __future__ import annotations

import json
from collections.abc import Mapping


def dump_json(value: object) -> str:
    """Encode a JSON column: read-only mappings and sets too, never NaN."""
    return json.dumps(value, default=_plain, allow_nan=False, separators=(",", ":"))


def _plain(value: object) -> object:
    match value:
        case Mapping():
            return dict(value)
        case set() | frozenset():
            return sorted(value)
        case _:
            raise TypeError(f"{type(value).__name__} cannot be kept in a JSON column")
