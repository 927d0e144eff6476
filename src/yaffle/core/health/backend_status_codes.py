"""Check codes for what a profile driver reads of a backend, shared by every mode that reads through one.

One table for polling and for listening, so that the same node is never down by one and frozen by
the other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from yaffle.model.health import OtherCopy

if TYPE_CHECKING:
    from yaffle.model.operations import Reading, Target

Seen = tuple[str, str, str]
"""Code of `core.health.check_codes`, detail, the backend's own word."""

_FROZEN: Final = ("frozen", "paused", "suspended")


def classify(reading: Reading) -> Seen:
    """Return the row that a reading means."""
    word = reading.backend_status
    if reading.kept and (reading.stuck or reading.up is False):
        detail = f"{reading.detail}; {reading.kept}" if reading.detail else reading.kept
        return "ST-LOCKED", f"{word}: {detail}", word
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


def copy_of(target: Target, reading: Reading) -> OtherCopy | None:
    """Return the copy that was read where what is stored of the node's own is not true of it.

    It is another one, or the same with other facts: a person has moved it to another machine, or
    nobody knew yet where it is (a node that was imported).
    """
    known = target.physical_id
    if other := other_copy(target, reading):
        return other
    if not reading.exists or not known or reading.physical_id != known:
        return None
    facts = _facts(reading.attributes)
    if facts is None or facts.items() <= target.attributes.items():
        return None
    return OtherCopy(known=known, present=known, attributes=facts)


def _facts(told: object) -> Mapping[str, object] | None:
    """Return facts as a row keeps them; None of what no row could keep: a driver may say anything."""
    if not isinstance(told, Mapping):
        return None
    try:
        kept: Mapping[str, object] = json.loads(json.dumps(dict(told), allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        return None
    return kept


def other_copy(target: Target, reading: Reading) -> OtherCopy | None:
    """Return the copy that was read, if it is not the one that we know of; one of ours came late.

    A request that was given up may have made one after all. What is not there any more is nobody's
    copy, whatever the backend remembers of it.
    """
    present = reading.physical_id if reading.exists else ""
    if not isinstance(present, str) or present in {"", target.physical_id}:
        return None
    return OtherCopy(
        known=target.physical_id, present=present, attributes=_facts(reading.attributes)
    )
