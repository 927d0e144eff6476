"""What a scaling policy makes of a request: a count, not now, or a fault."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.build import SECOND, T0

from yaffle.core.scaling.scaling_policy import Cooling, Scaled, propose
from yaffle.core.scaling.sizes import Fault, Sizes
from yaffle.model.cluster_policies import Adjustment, AdjustmentType, ScalingEvent, ScalingPolicy

EXACT, CHANGE, PERCENT = AdjustmentType
IN, OUT = ScalingEvent


def policy(
    event: ScalingEvent = OUT,
    kind: AdjustmentType = CHANGE,
    number: float = 1,
    *,
    min_step: int = 1,
    best_effort: bool = False,
    cooldown_s: int = 0,
) -> ScalingPolicy:
    return ScalingPolicy(
        version="1.0",
        event=event,
        adjustment=Adjustment(
            type=kind,
            number=number,
            min_step=min_step,
            best_effort=best_effort,
            cooldown_s=cooldown_s,
        ),
    )


NOW = Sizes(desired=4, min_size=2, max_size=6)


@pytest.mark.parametrize(
    ("scaling", "wanted", "expected"),
    [
        pytest.param(policy(number=2), None, 6, id="out"),
        pytest.param(policy(IN, number=2), None, 2, id="in"),
        pytest.param(policy(number=2), 1, 5, id="the-request-says-how-many"),
        pytest.param(policy(kind=EXACT, number=6), None, 6, id="out-to-exactly"),
        pytest.param(policy(IN, EXACT, 3), None, 3, id="in-to-exactly"),
        pytest.param(policy(kind=PERCENT, number=25), None, 5, id="percent"),
        pytest.param(policy(IN, PERCENT, 30), None, 3, id="percent-in"),
        pytest.param(policy(IN, PERCENT, 30, min_step=2), None, 2, id="the-least-step"),
        pytest.param(policy(number=9, best_effort=True), None, 6, id="as-far-as-it-goes"),
        pytest.param(policy(IN, best_effort=True), 9, 2, id="as-far-as-it-goes-in"),
    ],
)
def test_a_count(scaling: ScalingPolicy, wanted: int | None, expected: int) -> None:
    after = Sizes(desired=expected, min_size=2, max_size=6)
    found = propose(scaling, NOW, wanted=wanted, last_op_us=None, now_us=T0)
    assert found == Scaled(count=abs(expected - 4), sizes=after)


@pytest.mark.parametrize(
    ("scaling", "wanted", "text"),
    [
        pytest.param(policy(), 0, "Invalid count (0) for action 'CLUSTER_SCALE_OUT'.", id="zero"),
        pytest.param(
            policy(IN), -1, "Invalid count (-1) for action 'CLUSTER_SCALE_IN'.", id="negative"
        ),
        pytest.param(
            policy(IN, EXACT, 5),
            None,
            "Invalid count (-1) for action 'CLUSTER_SCALE_IN'.",
            id="in-to-more-than-there-are",
        ),
        pytest.param(
            policy(kind=EXACT, number=4),
            None,
            "Invalid count (0) for action 'CLUSTER_SCALE_OUT'.",
            id="out-to-what-there-is",
        ),
        pytest.param(
            policy(number=0.5),
            None,
            "Invalid count (0.5) for action 'CLUSTER_SCALE_OUT'.",
            id="half-a-node",
        ),
        pytest.param(
            policy(number=3),
            None,
            "The target capacity (7) is greater than the cluster's max_size (6).",
            id="past-the-maximum",
        ),
        pytest.param(
            policy(IN),
            9,
            "The target capacity (-5) is less than the cluster's min_size (2).",
            id="past-the-minimum",
        ),
    ],
)
def test_a_fault(scaling: ScalingPolicy, wanted: int | None, text: str) -> None:
    assert propose(scaling, NOW, wanted=wanted, last_op_us=None, now_us=T0) == Fault(text)


@pytest.mark.parametrize(
    ("event", "sizes"),
    [
        pytest.param(IN, Sizes(desired=2, min_size=2), id="at-the-minimum"),
        pytest.param(IN, Sizes(desired=1, min_size=2), id="below-it-already"),
        pytest.param(OUT, Sizes(desired=3, max_size=3), id="at-the-maximum"),
        pytest.param(OUT, Sizes(desired=4, max_size=3), id="above-it-already"),
        pytest.param(OUT, Sizes(desired=1000), id="at-the-ceiling"),
    ],
)
def test_best_effort_without_room_is_no_fault(event: ScalingEvent, sizes: Sizes) -> None:
    found = propose(policy(event, best_effort=True), sizes, wanted=2, last_op_us=None, now_us=T0)
    assert found == Scaled(count=0, sizes=sizes)


@pytest.mark.parametrize(
    ("elapsed_s", "cools"),
    [
        pytest.param(0, True, id="at-once"),
        pytest.param(59, True, id="just-before"),
        pytest.param(60, False, id="over"),
        pytest.param(-5, True, id="another-engine-is-a-little-ahead"),
        pytest.param(-3600, False, id="a-clock-set-back-an-hour"),
    ],
)
def test_cooldown(elapsed_s: int, cools: bool) -> None:
    found = propose(
        policy(cooldown_s=60),
        NOW,
        wanted=None,
        last_op_us=T0,
        now_us=T0 + elapsed_s * SECOND,
    )
    assert (found == Cooling(until_us=T0 + 60 * SECOND)) is cools


def test_without_cooldown_two_at_once_are_fine() -> None:
    found = propose(policy(), NOW, wanted=None, last_op_us=T0, now_us=T0)
    assert isinstance(found, Scaled)


@given(
    st.builds(
        policy,
        st.sampled_from(ScalingEvent),
        st.sampled_from(AdjustmentType),
        st.floats(0.1, 2000),
        min_step=st.integers(0, 20),
        best_effort=st.booleans(),
    ),
    st.integers(0, 10),
    st.integers(0, 10),
    st.integers(0, 10) | st.none(),
    st.integers(-1, 2000) | st.none(),
)
def test_no_scaling_leaves_the_bounds(
    scaling: ScalingPolicy, low: int, more: int, spare: int | None, wanted: int | None
) -> None:
    top = -1 if spare is None else low + more + spare
    sizes = Sizes(desired=low + more, min_size=low, max_size=top)
    found = propose(scaling, sizes, wanted=wanted, last_op_us=None, now_us=T0)
    if not isinstance(found, Scaled):
        assert isinstance(found, Fault)
        return
    after = found.sizes.desired
    assert low <= after <= (1000 if top < 0 else top)
    assert after - sizes.desired == (-found.count if scaling.event is IN else found.count)
