"""The short ways of the core come to what the long ones do: steady passes, idle time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.core.build import MODES, SECOND, STATUS, T0, URL, detection, memory, observation

from yaffle.core.health.check_deadlines import next_change_us
from yaffle.core.health.staleness import freshness
from yaffle.core.health.verdict import (
    EMPTY,
    NodeMemory,
    aged,
    conclude,
    count,
    observe,
    resettle,
    restart,
    set_mark,
)
from yaffle.model.health import Health, Mark, Observation, Outcome
from yaffle.model.policy import Conditional, Detection

MARK = Mark(reason="it smells", by="ann", at_us=T0)
OUTCOMES = st.sampled_from(["pass", "pass", "pass", "pass", "warn", "fail", "unknown"])
STEPS_S = st.one_of(
    st.integers(0, 12), st.integers(0, 12), st.integers(-40, 80), st.sampled_from([35, 36, -35])
)
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["seen"] * 12 + ["resettled", "restarted", "marked", "lifted"]),
        OUTCOMES,
        st.sampled_from([STATUS, URL]),
        STEPS_S,
        st.integers(-3, 3),
        st.booleans(),
    ),
    max_size=30,
)
POLICIES = st.builds(
    lambda keys, conditional, early, rise, fall: detection(
        *keys, conditional=conditional, grace_ends_early=early, rise=rise, fall=fall
    ),
    st.sampled_from([(STATUS,), (STATUS, URL)]),
    st.sampled_from(Conditional),
    st.booleans(),
    st.integers(1, 2),
    st.integers(1, 3),
)


def the_long_way(before: NodeMemory, seen: Observation, how: Detection, now_us: int) -> NodeMemory:
    """Count and conclude, whatever it costs."""
    stale_us = freshness(how).get(seen.mode)
    if stale_us is None:
        return before
    if before.grace_us is not None and seen.at_us - seen.took_us < before.grace_us <= now_us:
        return before
    track = before.tracks.get(seen.mode, EMPTY)
    if track.last is not None:
        if seen.at_us < track.last.at_us <= now_us + stale_us:
            return before
        track = aged(track, stale_us, seen.at_us)
    tracks = {**before.tracks, seen.mode: count(track, seen, how)}
    first = before.first_fail_us
    if seen.outcome is Outcome.FAIL and first is None:
        first = seen.at_us
    return conclude(replace(before, tracks=tracks, first_fail_us=first), how, now_us)


def after(
    before: NodeMemory, event: tuple[str, str, str, int, int, bool], how: Detection, now_us: int
) -> NodeMemory:
    """Return the memory after one thing happened, and check the short way where there is one."""
    what, outcome, mode, _, skew_s, certain = event
    match what:
        case "resettled":
            return conclude(resettle(before), how, now_us)
        case "restarted":
            return conclude(restart(before, now_us), how, now_us)
        case "marked":
            return set_mark(before, MARK, how, now_us)
        case "lifted":
            return set_mark(before, None, how, now_us)
        case _:
            seen = observation(
                outcome, now_us + skew_s * SECOND, mode=MODES[mode].key, authoritative=certain
            )
            short = observe(before, seen, how, now_us)
            assert short == the_long_way(before, seen, how, now_us)
            # What was overtaken is left as it was, not concluded.
            return conclude(short, how, now_us)


@settings(max_examples=400, deadline=None)
@given(how=POLICIES, events=EVENTS, share=st.floats(0, 1, exclude_max=True))
def test_nothing_changes_before_the_moment_that_is_told(
    how: Detection, events: list[tuple[str, str, str, int, int, bool]], share: float
) -> None:
    now_us = T0
    node = conclude(memory(health=Health.HEALTHY), how, now_us)
    for event in events:
        now_us += event[3] * SECOND
        node = after(conclude(node, how, now_us), event, how, now_us)
        due_us = next_change_us(node, how, now_us)
        if due_us is None:
            assert conclude(node, how, now_us + 10**9 * SECOND) == node
            continue
        assert due_us > now_us
        assert conclude(node, how, now_us + int((due_us - 1 - now_us) * share)) == node
        assert conclude(node, how, due_us - 1) == node


@pytest.mark.parametrize(
    ("node", "due_s"),
    [
        pytest.param(memory(), 35, id="nobody-answered-yet"),
        pytest.param(memory(grace_us=T0 - 50 * SECOND), 10, id="grace-ends"),
        pytest.param(memory(unheard_us=T0 - 30 * SECOND), 5, id="unheard-for-long"),
    ],
)
def test_something_changes_at_the_moment_that_is_told(node: NodeMemory, due_s: int) -> None:
    how = detection()
    node = conclude(node, how, T0)
    due_us = next_change_us(node, how, T0)
    # An age equal to the limit still counts, an equal end of grace does not.
    assert due_us in {T0 + due_s * SECOND, T0 + due_s * SECOND + 1}
    assert conclude(node, how, due_us - 1) == node
    assert conclude(node, how, due_us) != node


def test_a_steady_pass_is_taken_the_short_way() -> None:
    """Else the comparison above would compare the long way with itself."""
    how = detection()
    node = memory()
    for beat in range(4):
        node = observe(node, observation("pass", T0 + beat * SECOND), how, T0 + beat * SECOND)
    passed = observe(node, observation("pass", T0 + 4 * SECOND), how, T0 + 4 * SECOND)
    assert node.health is passed.health is Health.HEALTHY
    assert passed.tracks[STATUS].passes == 5


@pytest.mark.parametrize("age_s", [35, 36], ids=["still-counts", "counts-no-more"])
def test_freshness_is_that_of_the_policy_that_asks(age_s: int) -> None:
    slow = detection(interval_s=10.0)
    assert freshness(slow)[STATUS] == 35 * SECOND
    assert freshness(detection(interval_s=4.0))[STATUS] == 14 * SECOND
    assert (freshness(slow)[STATUS] >= age_s * SECOND) is (age_s == 35)
