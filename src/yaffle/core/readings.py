"""What a profile's reading means: the rows that every mode which reads through a profile reports.

One table for polling and for listening, so that the same node is never down by one and frozen by
the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from yaffle.model.operations import Reading

Seen = tuple[str, str, str]
"""Code of `core.outcomes`, detail, the backend's own word."""

_FROZEN: Final = ("frozen", "paused", "suspended")


def classify(reading: Reading) -> Seen:
    """Return the row that a reading means."""
    word = reading.backend_status
    if reading.stuck:
        code = "ST-STUCK"
    elif reading.up is None:
        code = "ST-UNCLEAR"
    elif reading.up:
        code = "ST-UP"
    elif not reading.exists:
        code = "ST-GONE"
    elif any(frozen in word.lower() for frozen in _FROZEN):
        code = "ST-FROZEN"
    else:
        code = "ST-DOWN"
    return code, f"{word}: {reading.detail}" if reading.detail else word, word
