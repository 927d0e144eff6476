"""Retry rules of one node: attempts, back-off between them, and when a human is needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from yaffle.model.policy import Retry

SECOND: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryState:
    """The retry state of a node, stored as columns of its row."""

    attempts: int = 0
    next_us: int | None = None
    """No earlier than this may it be tried again."""
    exhausted_us: int | None = None
    """When its budget ran out; cleared by a person's acknowledgement only."""


FRESH: Final = RetryState()


def backoff_s(attempts: int, retry: Retry) -> float:
    """Return the back-off after the `attempts`-th attempt: doubled each time, up to the maximum (s)."""
    if attempts <= 0:
        return 0.0
    exponent = min(attempts - 1, 62)  # 2**62 is past every maximum and still exact
    return min(retry.backoff_s * float(2**exponent), retry.max_backoff_s)


def started(state: RetryState, retry: Retry, now_us: int) -> RetryState:
    """Count an attempt when it begins, so that a crash cannot lose the count."""
    attempts = state.attempts + 1
    return replace(
        state, attempts=attempts, next_us=now_us + int(backoff_s(attempts, retry) * SECOND)
    )


def ended(state: RetryState, retry: Retry, now_us: int, *, unseen: int = 0) -> RetryState:
    """Start the back-off when an attempt ends, also one that is not counted.

    `unseen`: acts of this failure of which nobody knows what they came to. They are no attempts, and all
    the same not repeated ever so often.
    """
    rest_s = backoff_s(max(1, state.attempts + unseen), retry)
    return replace(state, next_us=now_us + int(rest_s * SECOND))


def refunded(state: RetryState, now_us: int) -> RetryState:
    """Give back an attempt that touched nothing; another one may begin at once."""
    return replace(state, attempts=max(0, state.attempts - 1), next_us=now_us)


def spent(state: RetryState, retry: Retry) -> bool:
    """Whether no attempt is left."""
    return state.attempts >= retry.attempts


def allowed_once_spent(attempts: int, allowed: int) -> int:
    """Return the number of attempts to tell of a node that has none left.

    `allowed`: by its policy now. Where that allows more than were used, it has changed since: nothing but
    a person's acknowledgement gives new ones, and "3 of 6 were tried" would be no reason for that.
    """
    return attempts if 0 < attempts < allowed else allowed


def exhausted(state: RetryState, now_us: int) -> RetryState:
    """Record that a human is needed."""
    return replace(state, exhausted_us=now_us)


def stable(
    state: RetryState, retry: Retry, healthy_since_us: int | None, now_us: int
) -> RetryState:
    """Reset the attempts once the node has been healthy for `stable_after`; never an exhaustion."""
    if state.exhausted_us is not None or healthy_since_us is None:
        return state
    if now_us - healthy_since_us < retry.stable_after_s * SECOND:
        return state
    return FRESH
