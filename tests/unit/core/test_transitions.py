"""The table of a node's health, read row by row."""

from __future__ import annotations

import pytest

from yaffle.core.health.transitions import TABLE, HealthEvent, IllegalTransition, move
from yaffle.model.health import Health

H, E = Health, HealthEvent


def test_every_pair_is_listed() -> None:
    assert set(TABLE) == {(health, event) for health in Health for event in HealthEvent}


@pytest.mark.parametrize("health", list(Health))
def test_every_state_can_be_entered_and_left(health: Health) -> None:
    assert any(after is health and before is not health for (before, _), after in TABLE.items())
    assert any(before is health and after is not health for (before, _), after in TABLE.items())


@pytest.mark.parametrize("start", list(Health))
def test_every_state_can_be_reached_from_every_other(start: Health) -> None:
    seen, new = {start}, {start}
    while new:
        new = {after for (before, _), after in TABLE.items() if before in new} - seen
        seen |= new
    assert seen == set(Health)


def test_only_a_verdict_or_a_mark_makes_a_node_unhealthy() -> None:
    entering = {e for (before, e), after in TABLE.items() if after is H.UNHEALTHY is not before}
    assert entering == {E.FAIL, E.MARKED}
    assert all(move(h, e) is H.UNHEALTHY for h in Health for e in (E.FAIL, E.MARKED))


def test_only_a_pass_makes_a_node_healthy() -> None:
    assert {e for (_, e), after in TABLE.items() if after is H.HEALTHY} == {E.PASS}
    assert all(move(h, E.PASS) is H.HEALTHY for h in Health)


def test_a_restart_begins_anew_whatever_was() -> None:
    assert all(move(h, E.RESTARTED) is H.INITIALIZING for h in Health)


def test_only_missing_counts_let_an_old_verdict_stand() -> None:
    staying = {e for (before, e), after in TABLE.items() if before is after is H.UNHEALTHY}
    assert staying == {E.DOUBT, E.FAIL, E.MARKED}


@pytest.mark.parametrize(
    ("health", "event", "after"),
    [
        pytest.param(H.HEALTHY, E.DOUBT, H.SUSPECT, id="doubt-starts"),
        pytest.param(H.SUSPECT, E.WAVER, H.SUSPECT, id="doubt-goes-on"),
        pytest.param(H.UNHEALTHY, E.WAVER, H.SUSPECT, id="verdict-no-longer-borne"),
        pytest.param(H.UNHEALTHY, E.UNKNOWN, H.UNKNOWN, id="old-bad-news"),
        pytest.param(H.HEALTHY, E.UNKNOWN, H.UNKNOWN, id="not-checked-is-not-healthy"),
        pytest.param(H.UNKNOWN, E.DOUBT, H.SUSPECT, id="unknown-then-failing"),
        pytest.param(H.UNKNOWN, E.WAVER, H.SUSPECT, id="unknown-and-failing"),
        pytest.param(H.HEALTHY, E.WAVER, H.SUSPECT, id="healthy-and-failing"),
        pytest.param(H.INITIALIZING, E.UNKNOWN, H.INITIALIZING, id="nothing-known-yet"),
        pytest.param(H.INITIALIZING, E.DOUBT, H.INITIALIZING, id="starting-and-failing"),
        pytest.param(H.INITIALIZING, E.WAVER, H.INITIALIZING, id="starting-in-grace"),
        pytest.param(H.UNHEALTHY, E.RESTARTED, H.INITIALIZING, id="begins-anew"),
        pytest.param(H.UNKNOWN, E.UNKNOWN, H.UNKNOWN, id="still-unknown"),
        pytest.param(H.SUSPECT, E.UNKNOWN, H.UNKNOWN, id="doubt-cannot-be-asked"),
        pytest.param(H.SUSPECT, E.DOUBT, H.SUSPECT, id="doubt-goes-on-counting"),
    ],
)
def test_row(health: Health, event: HealthEvent, after: Health) -> None:
    assert move(health, event) is after


def test_an_unlisted_move_is_loud() -> None:
    with pytest.raises(IllegalTransition, match="has no move on"):
        move(Health.HEALTHY, "no such event")  # type: ignore[arg-type]
