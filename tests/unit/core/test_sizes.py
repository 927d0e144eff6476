"""Sizes of a cluster: Senlin's rules, its sentences, and the arithmetic of resize."""

from __future__ import annotations

from fractions import Fraction
from math import trunc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yaffle.core.scaling.sizes import (
    Fault,
    Sizes,
    adjustment,
    check,
    initial,
    resize,
    scale,
    truncated,
)
from yaffle.model.cluster_policies import AdjustmentType, ScalingEvent

EXACT, CHANGE, PERCENT = AdjustmentType
IN, OUT = ScalingEvent


@pytest.mark.parametrize(
    ("desired", "min_size", "max_size", "expected"),
    [
        pytest.param(None, None, None, Sizes(desired=0, min_size=0, max_size=-1), id="empty"),
        pytest.param(None, 2, None, Sizes(desired=2, min_size=2), id="the-minimum"),
        pytest.param(3, 2, 3, Sizes(desired=3, min_size=2, max_size=3), id="up-to-the-maximum"),
        pytest.param(0, 0, 0, Sizes(desired=0, max_size=0), id="none-ever"),
        pytest.param(1000, None, -1, Sizes(desired=1000), id="the-ceiling"),
        pytest.param(
            5,
            None,
            2,
            "The target capacity (5) is greater than the specified max_size (2).",
            id="max",
        ),
        pytest.param(
            1, 2, None, "The target capacity (1) is less than the specified min_size (2).", id="min"
        ),
        pytest.param(
            1001,
            None,
            None,
            "The target capacity (1001) is greater than the maximum number of nodes allowed per "
            "cluster (1000).",
            id="ceiling",
        ),
        pytest.param(
            None,
            1,
            1001,
            "The specified max_size (1001) is greater than the maximum number of nodes allowed per "
            "cluster (1000).",
            id="max-above-the-ceiling",
        ),
        pytest.param(
            None,
            3,
            2,
            "The target capacity (3) is greater than the specified max_size (2).",
            id="min-above-max",
        ),
        pytest.param(
            -1,
            None,
            None,
            "The target capacity (-1) is less than the cluster's min_size (0).",
            id="negative",
        ),
        pytest.param(
            None, -1, None, "The specified min_size (-1) is less than 0.", id="min-below-0"
        ),
        pytest.param(
            None, None, -2, "The specified max_size (-2) is less than -1.", id="max-below"
        ),
    ],
)
def test_a_new_cluster(
    desired: int | None, min_size: int | None, max_size: int | None, expected: Sizes | str
) -> None:
    found = initial(desired, min_size, max_size)
    assert (found.text if isinstance(found, Fault) else found) == expected


NOW = Sizes(desired=3, min_size=2, max_size=5)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        pytest.param({"desired": 4}, None, id="inside"),
        pytest.param({"desired": 9, "max_size": -1}, None, id="the-bound-lifted"),
        pytest.param({"desired": 1, "min_size": 1}, None, id="with-its-own-minimum"),
        pytest.param({"max_size": 3, "min_size": 3}, None, id="just-so"),
        pytest.param(
            {"desired": 1, "min_size": 0, "max_size": 0},
            "The target capacity (1) is greater than the specified max_size (0).",
            id="none-is-a-bound-too",
        ),
        pytest.param(
            {"desired": 6},
            "The target capacity (6) is greater than the cluster's max_size (5).",
            id="own-max",
        ),
        pytest.param(
            {"desired": 1},
            "The target capacity (1) is less than the cluster's min_size (2).",
            id="own-min",
        ),
        pytest.param(
            {"min_size": 4, "max_size": 3},
            "The specified min_size (4) is greater than the specified max_size (3).",
            id="min-above-max",
        ),
        pytest.param(
            {"min_size": 6},
            "The specified min_size (6) is greater than the current max_size (5) of the cluster.",
            id="min-above-own-max",
        ),
        pytest.param(
            {"min_size": 4},
            "The specified min_size (4) is greater than the current desired_capacity (3) of the "
            "cluster.",
            id="min-above-desired",
        ),
        pytest.param(
            {"max_size": 1},
            "The specified max_size (1) is less than the current min_size (2) of the cluster.",
            id="max-below-own-min",
        ),
        pytest.param(
            {"max_size": 2},
            "The specified max_size (2) is less than the current desired_capacity (3) of the "
            "cluster.",
            id="max-below-desired",
        ),
    ],
)
def test_check(asked: dict[str, int], text: str | None) -> None:
    found = check(NOW, **asked)
    assert (found and found.text) == text


@pytest.mark.parametrize(
    ("desired", "kind", "number", "min_step", "after"),
    [
        pytest.param(4, EXACT, 7, None, 7, id="exact"),
        pytest.param(4, CHANGE, 2, None, 6, id="up"),
        pytest.param(4, CHANGE, -2, None, 2, id="down"),
        pytest.param(4, CHANGE, -2, 3, 2, id="min-step-is-for-percentages"),
        pytest.param(10, PERCENT, 25, None, 12, id="toward-zero"),
        pytest.param(10, PERCENT, -25, None, 8, id="toward-zero-down"),
        pytest.param(4, PERCENT, 10, None, 5, id="less-than-one-node-up"),
        pytest.param(4, PERCENT, -10, None, 3, id="less-than-one-node-down"),
        pytest.param(4, PERCENT, 0, 2, 4, id="nothing"),
        pytest.param(4, PERCENT, 25, 2, 6, id="min-step"),
        pytest.param(4, PERCENT, -25, 2, 2, id="min-step-down"),
        pytest.param(10, PERCENT, 50, 2, 15, id="min-step-passed"),
        pytest.param(0, PERCENT, 50, 2, 2, id="growth-from-none-grows"),
        pytest.param(0, PERCENT, 50, None, 0, id="half-of-none"),
        pytest.param(375, PERCENT, 18.4, None, 444, id="no-binary-fractions"),
    ],
)
def test_adjustment(
    desired: int, kind: AdjustmentType, number: float, min_step: int | None, after: int
) -> None:
    assert adjustment(desired, kind, number, min_step) == after


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param(
            {"adjustment_type": "EXACT_CAPACITY", "number": 5},
            Sizes(desired=5, min_size=2, max_size=5),
            id="exact",
        ),
        pytest.param(
            {"adjustment_type": CHANGE, "number": 3, "max_size": 8},
            Sizes(desired=6, min_size=2, max_size=8),
            id="past-the-old-bound",
        ),
        pytest.param(
            {"min_size": 3, "max_size": -1}, Sizes(desired=3, min_size=3), id="bounds-alone"
        ),
        pytest.param(
            {"adjustment_type": CHANGE, "number": 9, "strict": False},
            Sizes(desired=5, min_size=2, max_size=5),
            id="truncated-to-own-max",
        ),
        pytest.param(
            {"adjustment_type": CHANGE, "number": -9, "min_size": 1, "strict": False},
            Sizes(desired=1, min_size=1, max_size=5),
            id="truncated-to-the-specified-min",
        ),
        pytest.param(
            {"max_size": 2, "strict": False},
            Sizes(desired=2, min_size=2, max_size=2),
            id="bounds-alone-truncate-too",
        ),
        pytest.param(
            {"max_size": 0, "min_size": 0, "strict": False},
            Sizes(desired=0, max_size=0),
            id="a-maximum-of-none-is-a-bound",
        ),
        pytest.param(
            {"adjustment_type": CHANGE, "number": 9},
            "The target capacity (12) is greater than the cluster's max_size (5).",
            id="strict",
        ),
        pytest.param(
            {"adjustment_type": EXACT, "number": 4, "min_size": 5, "max_size": 4, "strict": False},
            "The specified min_size (5) is greater than the specified max_size (4).",
            id="bounds-that-contradict",
        ),
        pytest.param(
            {"adjustment_type": EXACT, "number": 2000, "max_size": -1, "strict": False},
            "The target capacity (2000) is greater than the maximum number of nodes allowed per "
            "cluster (1000).",
            id="the-ceiling-is-no-bound-to-truncate-to",
        ),
        pytest.param({}, "Not enough parameters to do resize action.", id="nothing"),
        pytest.param(
            {"adjustment_type": EXACT, "number": 10**400},
            f"The target capacity ({10**400}) is greater than the maximum number of nodes allowed"
            " per cluster (1000).",
            id="no-float-is-so-large",
        ),
        pytest.param(
            {"adjustment_type": CHANGE, "number": 0},
            "The 'number' must be non-zero value for adjustment type 'CHANGE_IN_CAPACITY'.",
            id="no-change",
        ),
        pytest.param(
            {"min_step": 1, "strict": False},
            "Not enough parameters to do resize action.",
            id="nothing-that-changes-a-size",
        ),
        pytest.param(
            {"number": 1}, "Missing adjustment_type value for size adjustment.", id="no-type"
        ),
        pytest.param(
            {"adjustment_type": CHANGE, "min_size": 1},
            "Missing number value for size adjustment.",
            id="no-number",
        ),
        pytest.param(
            {"adjustment_type": EXACT, "number": -1},
            "The 'number' must be non-negative integer for adjustment type 'EXACT_CAPACITY'.",
            id="exactly-less-than-none",
        ),
        pytest.param(
            {"adjustment_type": PERCENT, "number": float("inf")},
            "The 'number' (inf) is not a number of nodes or percent.",
            id="endless",
        ),
    ],
)
def test_resize(asked: dict[str, object], expected: Sizes | str) -> None:
    found = resize(NOW, **asked)  # type: ignore[arg-type]
    assert (found.text if isinstance(found, Fault) else found) == expected


@pytest.mark.parametrize(
    ("current", "count", "event", "expected"),
    [
        pytest.param(NOW, None, OUT, Sizes(desired=4, min_size=2, max_size=5), id="one-out"),
        pytest.param(NOW, None, IN, Sizes(desired=2, min_size=2, max_size=5), id="one-in"),
        pytest.param(
            Sizes(desired=3),
            9,
            IN,
            "The target capacity (-6) is less than the cluster's min_size (0).",
            id="more-than-there-are",
        ),
        pytest.param(NOW, 0, IN, "Count for scale-in request cannot be 0.", id="none-in"),
        pytest.param(NOW, 0, OUT, "Count for scale-out request cannot be 0.", id="none-out"),
        pytest.param(NOW, -1, OUT, "Value must be >= 0 for field 'count'.", id="negative"),
        pytest.param(
            NOW,
            3,
            OUT,
            "The target capacity (6) is greater than the cluster's max_size (5).",
            id="past-the-maximum",
        ),
        pytest.param(
            NOW,
            9,
            IN,
            "The target capacity (-6) is less than the cluster's min_size (2).",
            id="past-the-minimum",
        ),
    ],
)
def test_scale(
    current: Sizes, count: int | None, event: ScalingEvent, expected: Sizes | str
) -> None:
    found = scale(current, count, event)
    assert (found.text if isinstance(found, Fault) else found) == expected


sizes = st.builds(
    lambda low, wanted, spare, bound: Sizes(
        desired=low + wanted, min_size=low, max_size=low + wanted + spare if bound else -1
    ),
    st.integers(0, 300),
    st.integers(0, 300),
    st.integers(0, 300),
    st.booleans(),
)
bounds = st.none() | st.integers(-1, 1100)


@given(
    current=sizes,
    kind=st.none() | st.sampled_from(AdjustmentType),
    number=st.none() | st.integers(-2000, 2000) | st.floats(-200, 200),
    min_size=bounds,
    max_size=bounds,
    min_step=st.none() | st.integers(0, 50),
    strict=st.booleans(),
)
def test_no_resize_leaves_the_bounds(
    current: Sizes,
    kind: AdjustmentType | None,
    number: float | None,
    min_size: int | None,
    max_size: int | None,
    min_step: int | None,
    strict: bool,
) -> None:
    after = resize(
        current,
        adjustment_type=kind,
        number=number,
        min_size=min_size,
        max_size=max_size,
        min_step=min_step,
        strict=strict,
    )
    if isinstance(after, Fault):
        return
    assert 0 <= after.min_size <= after.desired <= 1000
    assert after.max_size == -1 or after.desired <= after.max_size <= 1000
    assert after.min_size == (current.min_size if min_size is None else min_size)
    assert after.max_size == (current.max_size if max_size is None else max_size)


@given(current=sizes, number=st.integers(-3000, 3000).filter(bool))
def test_what_is_not_strict_is_refused_for_the_ceiling_alone(current: Sizes, number: int) -> None:
    after = resize(current, adjustment_type=CHANGE, number=number, strict=False)
    if isinstance(after, Fault):
        assert truncated(current.desired + number, current) > 1000
    else:
        assert after.desired == truncated(current.desired + number, current)


@given(desired=st.integers(0, 1000), percent=st.integers(-300, 300), step=st.integers(0, 20))
def test_a_percentage_is_never_more_than_it_says_but_for_the_least_step(
    desired: int, percent: int, step: int
) -> None:
    exact = Fraction(desired * percent, 100)
    change = adjustment(desired, PERCENT, percent, step) - desired
    assert change * percent >= 0, "the sign is the request's"
    if abs(exact) >= 1:
        assert abs(change) == max(abs(trunc(exact)), step)
    elif exact:
        assert abs(change) == max(1, step)
