"""Time bounds of the engine, read by the engine and by the policy's arithmetic.

All in seconds. A number that only one of the two knew would make the printed worst case untrue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from zlib import crc32

if TYPE_CHECKING:
    from yaffle.model.policy import DetectionMode, UrlOptions

JITTER: Final = 0.1
"""Share of the interval by which a check may come early or late."""
STATUS_CHECK_S: Final = 10.0
STATUS_CHECK_MIN_S: Final = 2.0
"""One question to a backend takes an interval at most, within these two."""
SLACK_S: Final = 1.0
"""What a check may take beyond its own time-outs before we give up waiting for it."""

DECIDE_S: Final = 5.0
"""From a verdict to the first step: bearings (2 s), saving, planning, claiming."""
LOOK_TRIES: Final = 3
LOOK_PAUSE_S: Final = 1.0
ADOPT_S: Final = 4.0
"""One reading of the target before a step, which finds a copy that was made late."""
FENCE_S: Final = 30.0
"""One kind of fencing, tried again until it is proved or refused."""

CALL_MIN_S: Final = 0.1
CALL_GRACE_S: Final = 0.5
"""What a call to a driver may take beyond the deadline that it was given."""
POLL_MAX_S: Final = 2.0
"""Longest pause between two polls."""
POLLED_AT_ONCE: Final = 2.0
"""Of those who follow something at a backend, about so many are asking at a time, the others pause."""
RESEND_MAX_S: Final = 10.0
"""Longest pause between two attempts to begin what a backend refuses for the time being."""
OVERRUN_S: Final = 4.0
"""By how much a step may miss its deadline: the pause and the two calls that were begun before it."""


def fence_s(kinds: int) -> float:
    """Return how long a fence takes at most, with so many kinds of fencing one after the other."""
    return FENCE_S * max(1, kinds)


def follow_pause_s(usual_s: float, answer_s: float, followers: int, left_s: float) -> float:
    """Return the pause between two questions about something that goes on at a backend.

    A backend that is slow is asked more rarely, the more so the more ask it: `followers`, each of whom
    waited `answer_s` for an answer. Never longer than an act is repeated, nor than is left.
    """
    slow_s = min(answer_s * followers / POLLED_AT_ONCE, RESEND_MAX_S, left_s)
    return max(usual_s, slow_s)


def in_step(now_s: float, interval_s: float, pool: str = "") -> float:
    """Return the pause to the next of the looks that a pool's clusters with that interval take at once.

    It comes early or late by no more than a check may, so that who begins anywhere is in step after
    five looks. `now_s`: monotonic, and the same clock for all. Pools are apart: a backend is not to be
    asked about all of them in one moment.
    """
    beat_s = now_s - interval_s * crc32(pool.encode()) / 2**32
    off_s = (beat_s + interval_s / 2) % interval_s - interval_s / 2
    most_s = JITTER * interval_s
    return interval_s - max(-most_s, min(off_s, most_s))


def check_s(mode: DetectionMode, interval_s: float) -> float:
    """Return how long one check of `mode` takes at most, all its attempts included."""
    return status_check_s(interval_s) if mode.url is None else url_check_s(mode.url)


def status_check_s(interval_s: float) -> float:
    """Return how long one question to a backend takes at most."""
    return min(STATUS_CHECK_S, max(STATUS_CHECK_MIN_S, interval_s))


def url_check_s(url: UrlOptions) -> float:
    """Return how long one check of a URL takes at most, all its attempts included."""
    attempts = max(1, url.retry_limit)
    return attempts * url.timeout_s + (attempts - 1) * url.retry_interval_s


def verify_pace_s(interval_s: float) -> float:
    """Return the pause between two looks at a node that was acted on."""
    return min(1.0, interval_s / 2)
