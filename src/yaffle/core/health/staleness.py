"""Staleness: which detection modes vote, and how old an observation of each may be to count."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from yaffle.model.policy import ModeType
from yaffle.model.timing import check_s

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yaffle.model.ids import ModeKey
    from yaffle.model.policy import Detection, DetectionMode

SECOND: Final = 1_000_000
KNOWN_MAX: Final = 4096


def voting(detection: Detection) -> tuple[DetectionMode, ...]:
    """Return the modes that vote.

    Events wake a check and never vote themselves: what LIFECYCLE_EVENTS reports is what the backend
    said when it was asked because of them. Beside it NODE_STATUS_POLLING is no voice of its own: it
    asks the same backend the same question, and only says that it be asked every interval.
    """
    listens = any(m.type is ModeType.LIFECYCLE_EVENTS for m in detection.modes)
    if not listens:
        return detection.modes
    return tuple(m for m in detection.modes if m.type is not ModeType.NODE_STATUS_POLLING)


def check_budget_us(mode: DetectionMode, interval_s: float) -> int:
    """Return how long one whole check of `mode` may take, retries included (µs)."""
    return int(check_s(mode, interval_s) * SECOND)


def stale_after_us(mode: DetectionMode, detection: Detection) -> int:
    """Return the age at which an observation stops counting: two intervals and a check's budget."""
    return int(2.5 * detection.interval_s * SECOND) + check_budget_us(mode, detection.interval_s)


_known: Final[dict[int, tuple[Detection, Mapping[ModeKey, int]]]] = {}


def freshness(detection: Detection) -> Mapping[ModeKey, int]:
    """Return by voting mode, in the declared order, the age at which its observations are stale.

    Asked for every observation, hence worked out once: by identity, because a policy is too big to
    be compared that often. What is kept holds on to the policy, so that its identity stays its own.
    """
    found = _known.get(id(detection))
    if found is None:
        if len(_known) >= KNOWN_MAX:
            _known.clear()
        ages = {m.key: stale_after_us(m, detection) for m in voting(detection)}
        found = _known[id(detection)] = (detection, MappingProxyType(ages))
    return found[1]
