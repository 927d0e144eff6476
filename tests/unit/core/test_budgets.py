"""Budgets of many scopes: all are debited or none, and a refusal says which and until when."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.build import SECOND, T0

from yaffle.core.planning.budgets import Bucket, BudgetLimit, Key, Refusal, Scope, debit, refill
from yaffle.model.incident import HoldReason

LIMIT = BudgetLimit(max_in_flight=2, burst=3, per_hour=60.0)
LIMITS = dict.fromkeys(Scope, LIMIT)


def bucket(tokens: float = 3.0, in_flight: int = 0, updated_us: int = T0) -> Bucket:
    return Bucket(tokens=tokens, updated_us=updated_us, in_flight=in_flight)


@pytest.mark.parametrize(
    ("tokens", "elapsed_s", "after"),
    [
        pytest.param(0.0, 60, 1.0, id="one-a-minute"),
        pytest.param(0.5, 30, 1.0, id="half"),
        pytest.param(0.0, 36000, 3.0, id="never-above-the-burst"),
        pytest.param(9.0, 0, 3.0, id="a-lowered-burst-takes-effect"),
        pytest.param(1.0, -3600, 1.0, id="clock-set-back"),
    ],
)
def test_refill(tokens: float, elapsed_s: int, after: float) -> None:
    now_us = T0 + elapsed_s * SECOND
    assert refill(bucket(tokens, 1), LIMIT, now_us) == bucket(after, 1, now_us)


def test_a_pass_that_commits_late_does_not_let_the_same_time_flow_in_twice() -> None:
    # It was made from before: another one committed while it waited for the database.
    held = refill(bucket(0.0), LIMIT, T0 + 10 * SECOND)
    for _ in range(9):
        held = refill(held, LIMIT, T0 + 1 * SECOND)
        held = refill(held, LIMIT, T0 + 10 * SECOND)
    assert held == bucket(10 / 60, updated_us=T0 + 10 * SECOND)


@pytest.mark.parametrize(
    ("ahead_us", "believed"),
    [(1, False), (60 * SECOND, False), (60 * SECOND + 1, True)],
    ids=["late by a moment", "late by a minute", "a clock set back by more"],
)
def test_who_is_late_by_more_than_a_minute_has_a_clock_that_was_set_back(
    ahead_us: int, believed: bool
) -> None:
    held = refill(bucket(updated_us=T0 + ahead_us), LIMIT, T0)
    assert held.updated_us == (T0 if believed else T0 + ahead_us)


def test_debit_takes_one_from_each() -> None:
    before: dict[Key, Bucket] = {(Scope.HOST, "h"): bucket(2.0), (Scope.GLOBAL, ""): bucket(1.0, 1)}
    after = debit(before, LIMITS, T0)
    expected = {(Scope.HOST, "h"): bucket(1.0), (Scope.GLOBAL, ""): bucket(0.0, 1)}
    assert after == expected


@pytest.mark.parametrize(
    ("buckets", "refusal"),
    [
        pytest.param(
            {(Scope.CLUSTER, "c"): bucket(0.0), (Scope.GLOBAL, ""): bucket(0.25)},
            Refusal(
                reason=HoldReason.RATE,
                numbers={"scope": "global", "key": "", "burst": 3, "per_hour": 60.0},
                until_us=T0 + 45 * SECOND + 1,
            ),
            id="the-widest-is-named",
        ),
        pytest.param(
            {(Scope.HOST, "h2"): bucket(0.0), (Scope.HOST, "h1"): bucket(3.0, 2)},
            Refusal(
                reason=HoldReason.IN_FLIGHT,
                numbers={"scope": "host", "key": "h1", "in_flight": 2, "limit": 2},
                until_us=None,
            ),
            id="in-flight-in-order-of-keys",
        ),
        pytest.param(
            {(Scope.PROJECT, "p"): bucket(0.0, 2)},
            Refusal(
                reason=HoldReason.IN_FLIGHT,
                numbers={"scope": "project", "key": "p", "in_flight": 2, "limit": 2},
                until_us=None,
            ),
            id="in-flight-before-rate",
        ),
        pytest.param(
            {(Scope.GLOBAL, ""): bucket(), (Scope.DOMAIN, "d"): bucket(0.999)},
            Refusal(
                reason=HoldReason.RATE,
                numbers={"scope": "domain", "key": "d", "burst": 3, "per_hour": 60.0},
                until_us=T0 + 60_001,
            ),
            id="the-second-refuses: nothing is taken from the first",
        ),
    ],
)
def test_refusal(buckets: Mapping[Key, Bucket], refusal: Refusal) -> None:
    copy = dict(buckets)
    assert debit(buckets, LIMITS, T0) == refusal
    assert buckets == copy


def test_exactly_one_token_suffices() -> None:
    assert debit({(Scope.HOST, "h"): bucket(1.0, 1)}, LIMITS, T0) == {
        (Scope.HOST, "h"): bucket(0.0, 1)
    }


@pytest.mark.parametrize(
    ("burst", "per_hour", "ends"),
    [
        pytest.param(1, 1.0, True, id="fills"),
        pytest.param(1, 0.0, False, id="never-filled"),
        pytest.param(0, 60.0, False, id="holds-nothing"),
    ],
)
def test_an_end_is_promised_only_if_there_is_one(burst: int, per_hour: float, ends: bool) -> None:
    limit = BudgetLimit(max_in_flight=1, burst=burst, per_hour=per_hour)
    refused = debit({(Scope.HOST, "h"): bucket(0.0)}, dict.fromkeys(Scope, limit), T0)
    assert isinstance(refused, Refusal)
    assert (refused.until_us is not None) is ends


@given(
    tokens=st.floats(0, 0.999999),
    per_hour=st.floats(0.01, 1e5),
    burst=st.integers(1, 100),
)
def test_the_promised_end_is_kept(tokens: float, per_hour: float, burst: int) -> None:
    limits = dict.fromkeys(Scope, BudgetLimit(max_in_flight=1, burst=burst, per_hour=per_hour))
    before: Mapping[Key, Bucket] = {(Scope.HOST, "h"): bucket(tokens)}
    refused = debit(before, limits, T0)
    assert isinstance(refused, Refusal)
    assert refused.until_us is not None
    assert not isinstance(debit(before, limits, refused.until_us), Refusal)


@given(st.lists(st.integers(0, 600), max_size=60))
def test_never_more_than_burst_and_rate_together(steps: list[int]) -> None:
    """Whatever the pace of asking, a span of time admits its burst plus its rate and no more."""
    held: Mapping[Key, Bucket] = {(Scope.GLOBAL, ""): bucket(3.0)}
    now_us, admitted = T0, 0
    for step in steps:
        now_us += step * SECOND
        answer = debit(held, LIMITS, now_us)
        if not isinstance(answer, Refusal):
            held, admitted = answer, admitted + 1
    assert admitted <= 3 + (now_us - T0) / SECOND / 60 + 1e-6


def test_nothing_is_in_flight_unless_it_is_said() -> None:
    assert Bucket(tokens=1.0, updated_us=T0).in_flight == 0
