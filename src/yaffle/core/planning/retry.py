"""Retry rules of one node: attempts, back-off between them, and when a human is needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from yaffle.model.policy import Retry

SECOND: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryState:
    """What is stored of a node's past recoveries (columns of its row)."""

    attempts: int = 0
    next_us: int | None = None
    """No earlier than this may it be tried again."""
    exhausted_us: int | None = None
    """When its budget ran out; cleared by a person's acknowledgement only."""


FRESH: Final = RetryState()


def backoff_s(attempts: int, retry: Retry) -> float:
    """Return the rest after the `attempts`-th try: doubled each time, up to the maximum (s)."""
    if attempts <= 0:
        return 0.0
    exponent = min(attempts - 1, 62)  # 2**62 is past every maximum and still exact
    return min(retry.backoff_s * float(2**exponent), retry.max_backoff_s)


def started(state: RetryState, retry: Retry, now_us: int) -> RetryState:
    """Count a try when it begins, so that a crash cannot lose the count."""
    attempts = state.attempts + 1
    return replace(
        state, attempts=attempts, next_us=now_us + int(backoff_s(attempts, retry) * SECOND)
    )


def ended(state: RetryState, retry: Retry, now_us: int, *, unseen: int = 0) -> RetryState:
    """Let the rest begin when the try ends; also one that was given back is not tried at once.

    `unseen`: acts of this failure of which nobody knows what they came to. They are no tries, and all
    the same not repeated ever so often.
    """
    rest_s = backoff_s(max(1, state.attempts + unseen), retry)
    return replace(state, next_us=now_us + int(rest_s * SECOND))


def refunded(state: RetryState, now_us: int) -> RetryState:
    """Give back a try that touched nothing; it may be tried again at once."""
    return replace(state, attempts=max(0, state.attempts - 1), next_us=now_us)


def spent(state: RetryState, retry: Retry) -> bool:
    """Whether the budget has no try left."""
    return state.attempts >= retry.attempts


def allowed_once_spent(attempts: int, allowed: int) -> int:
    """Return how many attempts were allowed to a node that has none left, for what is told of it.

    `allowed`: by its policy now. Where that allows more than were used, it has changed since: nothing but
    a person's acknowledgement gives new ones, and "3 of 6 were tried" would be no reason for that.
    """
    return attempts if 0 < attempts < allowed else allowed


def exhausted(state: RetryState, now_us: int) -> RetryState:
    """Record that a person is needed."""
    return replace(state, exhausted_us=now_us)


def stable(
    state: RetryState, retry: Retry, healthy_since_us: int | None, now_us: int
) -> RetryState:
    """Forget past tries once the node has been healthy for `stable_after`; never forget exhaustion."""
    if state.exhausted_us is not None or healthy_since_us is None:
        return state
    if now_us - healthy_since_us < retry.stable_after_s * SECOND:
        return state
    return FRESH
