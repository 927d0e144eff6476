"""Refusals in Masakari's shape, whose key says what kind it is.

{"conflictingRequest": {"code": 409, "message": "…"}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

FAULTS: Final = {
    400: "badRequest",
    401: "unauthorized",
    403: "forbidden",
    404: "itemNotFound",
    405: "badMethod",
    409: "conflictingRequest",
    413: "overLimit",
    415: "badMediaType",
    429: "overLimit",
    501: "notImplemented",
    503: "serviceUnavailable",
}
OTHER: Final = "masakariFault"


def fault(status: int, message: str) -> Mapping[str, object]:
    """Return the body of a refusal."""
    return {FAULTS.get(status, OTHER): {"code": status, "message": message}}
