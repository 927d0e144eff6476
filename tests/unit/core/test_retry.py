"""How often, how long in between, and what is forgotten when."""

from __future__ import annotations

import pytest
from tests.unit.core.build import SECOND, T0, tried

from yaffle.core.planning.retry import (
    FRESH,
    RetryState,
    backoff_s,
    ended,
    exhausted,
    refunded,
    spent,
    stable,
    started,
)
from yaffle.model.policy import Retry

RETRY = Retry(attempts=3, backoff_s=60.0, max_backoff_s=200.0, stable_after_s=600.0)


@pytest.mark.parametrize(
    ("attempts", "rest_s"),
    [(-1, 0.0), (0, 0.0), (1, 60.0), (2, 120.0), (3, 200.0), (64, 200.0), (10_000, 200.0)],
)
def test_backoff_doubles_up_to_the_maximum(attempts: int, rest_s: float) -> None:
    assert backoff_s(attempts, RETRY) == rest_s


def test_backoff_of_a_tiny_base_is_still_bounded() -> None:
    tiny = Retry(attempts=1, backoff_s=1e-9, max_backoff_s=1e30, stable_after_s=1.0)
    assert backoff_s(63, tiny) == backoff_s(64, tiny) == backoff_s(9999, tiny) == 1e-9 * 2**62
    assert backoff_s(62, tiny) == 1e-9 * 2**61


def test_a_try_counts_when_it_begins_and_rests_when_it_ends() -> None:
    first = started(FRESH, RETRY, T0)
    assert first == RetryState(attempts=1, next_us=T0 + 60 * SECOND)
    over = ended(first, RETRY, T0 + 30 * SECOND)
    assert over == RetryState(attempts=1, next_us=T0 + 90 * SECOND)
    assert started(over, RETRY, T0) == RetryState(attempts=2, next_us=T0 + 120 * SECOND)


@pytest.mark.parametrize(("attempts", "unseen", "rest_s"), [(0, 1, 60), (0, 2, 120), (1, 2, 200)])
def test_acts_that_nobody_saw_the_end_of_are_no_tries_and_make_the_rest_longer(
    attempts: int, unseen: int, rest_s: int
) -> None:
    over = ended(tried(attempts), RETRY, T0, unseen=unseen)
    assert over == tried(attempts, next_us=T0 + rest_s * SECOND)


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 0), (0, 0)])
def test_a_try_that_touched_nothing_is_given_back(before: int, after: int) -> None:
    assert refunded(tried(before, next_us=T0 + 9), T0) == tried(after, next_us=T0)


@pytest.mark.parametrize(("attempts", "out"), [(2, False), (3, True), (4, True)])
def test_spent(attempts: int, out: bool) -> None:
    assert spent(tried(attempts), RETRY) is out


def test_exhausted_is_recorded_with_its_time() -> None:
    assert exhausted(tried(3, next_us=5), T0) == tried(3, next_us=5, exhausted_us=T0)


@pytest.mark.parametrize(
    ("state", "healthy_for_s", "forgotten"),
    [
        pytest.param(tried(2), 600, True, id="stable"),
        pytest.param(tried(2), 599.999999, False, id="not-quite"),
        pytest.param(tried(2), None, False, id="not-healthy"),
        pytest.param(tried(3), 600, True, id="spent-but-healthy-again"),
        pytest.param(tried(3, exhausted_us=T0), 6000, False, id="a-person-must-see-it"),
        pytest.param(tried(2), -3600, False, id="clock-set-back"),
    ],
)
def test_stable(state: RetryState, healthy_for_s: float | None, forgotten: bool) -> None:
    since = None if healthy_for_s is None else T0 - int(healthy_for_s * SECOND)
    assert stable(state, RETRY, since, T0) == (FRESH if forgotten else state)
