"""Each guard on its own, and the table they stand in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.core.build import SECOND, T0, cluster, decisions, node, pause, recovery, tried

from yaffle.core.planning.cluster_view import ClusterView, NodeView
from yaffle.core.planning.guards import GUARDS, GroupCounts, GuardVerdict, count_nodes, threshold_of
from yaffle.core.planning.guards import tally as tally_of
from yaffle.core.planning.observer_partition import Blindness
from yaffle.model.incident import HoldReason
from yaffle.model.policy import RecoveryMode, Threshold, WhenExceeded

R = HoldReason
BY_REASON = {guard.reason: guard for guard in GUARDS}
SLOW = recovery(when_exceeded=WhenExceeded.SLOW)


def tally(view: ClusterView, now_us: int) -> GroupCounts:
    return tally_of(count_nodes(view, now_us), view.recovery.limits, view.desired_capacity)


def ask(
    reason: HoldReason, view: ClusterView, who: NodeView | None = None, now_us: int = T0
) -> GuardVerdict | None:
    """Ask one row about the first node of the view."""
    return BY_REASON[reason].holds(view, who or view.nodes[0], tally(view, now_us), now_us)


def numbers(finding: GuardVerdict | None) -> Mapping[str, object]:
    assert finding is not None
    return finding.numbers


# --- the table ------------------------------------------------------------------------------------


def test_every_reason_is_one_guard_or_the_budgets() -> None:
    reasons = [guard.reason for guard in GUARDS]
    assert len(set(reasons)) == len(reasons)
    assert {*reasons, HoldReason.RATE} == set(HoldReason)


def test_what_a_person_may_lift() -> None:
    """Storm, cool-down and observe mode; and exhaustion, for which a person is what is needed."""
    lifted = {guard.reason for guard in GUARDS if guard.by_request}
    storm = {R.STORM, R.DOMAIN_STORM, R.HOST_UNCLEAR}
    assert lifted == storm | {R.COOLING_DOWN, R.OBSERVE_MODE, R.NEEDS_HUMAN}


def test_the_order_of_asking() -> None:
    """The global stop first; what ends by itself soon before what needs a person; observe mode last."""
    assert [guard.reason for guard in GUARDS] == [
        R.STOPPED,
        R.MAINTENANCE,
        R.DEPENDENCY_LOST,
        R.BLIND,
        R.NODE_BUSY,
        R.RESETTLING,
        R.NEEDS_HUMAN,
        R.COOLING_DOWN,
        R.HOST_UNCLEAR,
        R.STORM,
        R.DOMAIN_STORM,
        R.IN_FLIGHT,
        R.OBSERVE_MODE,
    ]


@pytest.mark.parametrize("guard", GUARDS, ids=[b.reason.value for b in GUARDS])
def test_no_guard_holds_one_sick_node_of_three(guard: Any) -> None:
    view = cluster(node("a", "unhealthy"), node("b"), node("c"))
    assert guard.holds(view, view.nodes[0], tally(view, T0), T0) is None


# --- thresholds -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limit", "capacity", "allowed"),
    [
        pytest.param(Threshold(percent=40.0), 5, 2, id="exact-share-is-not-rounded-up"),
        pytest.param(Threshold(percent=40.0), 3, 2, id="rounded-up"),
        pytest.param(Threshold(percent=40.0), 1, 1, id="one-of-one"),
        pytest.param(Threshold(percent=40.0), 0, 1, id="capacity-zero"),
        pytest.param(Threshold(percent=40.0), -1, 1, id="capacity-negative"),
        pytest.param(Threshold(percent=0.0), 100, 1, id="zero-percent-allows-one"),
        pytest.param(Threshold(percent=100.0), 7, 7, id="all"),
        pytest.param(Threshold(percent=33.3), 1000, 333, id="tenths-of-a-percent"),
        pytest.param(Threshold(percent=0.1), 1001, 2, id="a-tenth-rounded-up"),
        pytest.param(Threshold(percent=7.0), 100, 7, id="seven-percent-is-not-eight"),
        pytest.param(Threshold(percent=29.0), 100, 29, id="nor-29-30"),
        pytest.param(Threshold(percent=40.0), 1_000_000, 400_000, id="a-million"),
        pytest.param(Threshold(count=3), 100, 3, id="count"),
        pytest.param(Threshold(count=3), 1, 3, id="count-above-capacity"),
        pytest.param(Threshold(count=0), 100, 1, id="count-zero-allows-one"),
        pytest.param(Threshold(count=2, percent=90.0), 100, 2, id="count-before-percent"),
        pytest.param(Threshold(), 10_000, 1, id="neither"),
    ],
)
def test_threshold(limit: Threshold, capacity: int, allowed: int) -> None:
    assert threshold_of(limit, capacity) == allowed


# --- counting -------------------------------------------------------------------------------------


def test_tally_counts_each_node_once() -> None:
    view = cluster(
        node("a", "unhealthy"),
        node("b", "suspect"),
        node("c", "suspect", recovering=True),
        node("d", "unhealthy", recovering=True),
        node("e", "initializing", recovering=True),
        node("f", "unknown"),
        node("g"),
    )
    assert tally(view, T0) == GroupCounts(sick=4, suspect=1, threshold=3, in_flight=3, domains={})


def test_planned_work_is_no_storm_but_stays_in_flight() -> None:
    view = cluster(
        node("a", "unhealthy", recovering=True),
        node("b", "suspect"),
        node("c", "unhealthy"),
        pauses=(pause(scope="node", target="a"), pause(scope="node", target="b")),
    )
    assert tally(view, T0) == GroupCounts(sick=1, suspect=0, threshold=2, in_flight=1, domains={})


def test_a_global_stop_hides_nobody() -> None:
    view = cluster(node("a", "unhealthy"), pauses=(pause("stop"),))
    assert tally(view, T0).sick == 1


def test_the_threshold_is_of_the_desired_capacity_not_of_who_is_there() -> None:
    few = cluster(node("a", "unhealthy"), desired_capacity=10)
    assert tally(few, T0).threshold == 4
    many = cluster(*(node(str(i)) for i in range(10)), desired_capacity=2)
    assert tally(many, T0).threshold == 1


def test_domains_count_their_members_well_or_not() -> None:
    view = cluster(
        node("a", "unhealthy", domain="east"),
        node("b", "suspect", domain="east"),
        node("c", domain="east"),
        node("d", "suspect", recovering=True, domain="west"),
        node("e", "unhealthy"),
        how=recovery(domain="zone"),
    )
    assert tally(view, T0).domains == {"east": (1, 1, 2), "west": (1, 0, 1)}
    assert tally(replace(view, recovery=recovery()), T0).domains == {}


# --- rows -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "kind"), [(R.STOPPED, "stop"), (R.MAINTENANCE, "maintenance")], ids=str
)
def test_pauses(reason: HoldReason, kind: str) -> None:
    first = pause(kind, "cluster", "c", expires_us=T0 + 9, id="long", owner="bob")
    other = pause(kind, "node", "a", expires_us=T0 + 5)
    view = cluster(node("a", "unhealthy"), pauses=(other, first))
    finding = ask(reason, view)
    assert finding is not None
    assert finding.until_us == T0 + 9
    assert finding.numbers == {
        "pause": "long",
        "scope": "cluster",
        "owner": "bob",
        "reason": "planned work",
        "holders": 2,
    }
    assert ask(reason, view, now_us=T0 + 9) is None
    other_reason = R.STOPPED if reason is R.MAINTENANCE else R.MAINTENANCE
    assert ask(other_reason, view) is None


def test_lost_dependency() -> None:
    view = cluster(node("a", "unhealthy"), lost=("prober", "database"))
    assert numbers(ask(R.DEPENDENCY_LOST, view)) == {"lost": ["prober", "database"]}


def test_blind() -> None:
    seen = Blindness(asked=3, answered=0, references_asked=2, references_answered=0)
    view = cluster(node("a", "unhealthy"), blind=seen)
    assert numbers(ask(R.BLIND, view)) == {
        "asked": 3,
        "answered": 0,
        "references_asked": 2,
        "references_answered": 0,
    }


def test_who_is_sick_by_one_silent_kind_of_detection_alone_is_held_unless_a_person_marked_it() -> (
    None
):
    seen = Blindness(
        asked=5, answered=1, references_asked=3, references_answered=0, road="NODE_STATUS_POLL_URL"
    )
    view = cluster(node("a", "unhealthy", blind=seen))
    assert numbers(ask(R.BLIND, view)) == {
        "asked": 5,
        "answered": 1,
        "references_asked": 3,
        "references_answered": 0,
        "road": "NODE_STATUS_POLL_URL",
    }
    assert ask(R.BLIND, cluster(node("a", "unhealthy", blind=seen, marked=True))) is None


def test_busy() -> None:
    view = cluster(node("a", "unhealthy", busy="NODE_UPDATE"))
    assert numbers(ask(R.NODE_BUSY, view)) == {"action": "NODE_UPDATE"}


@pytest.mark.parametrize(
    ("settled", "marked", "held"),
    [(True, False, False), (False, False, True), (False, True, False), (True, True, False)],
    ids=["settled", "unsettled", "unsettled-but-marked", "settled-and-marked"],
)
def test_resettling(settled: bool, marked: bool, held: bool) -> None:
    view = cluster(node("a", "unhealthy", settled=settled, marked=marked))
    assert (ask(R.RESETTLING, view) is not None) is held


@pytest.mark.parametrize(
    ("attempts", "exhausted_us", "held"),
    [
        pytest.param(2, None, False, id="one-left"),
        pytest.param(3, None, True, id="spent"),
        pytest.param(4, None, True, id="overspent"),
        pytest.param(0, T0, True, id="exhausted-by-the-ladder"),
        pytest.param(2, T0, True, id="spent-before-the-policy-allowed-more"),
    ],
)
def test_needs_human(attempts: int, exhausted_us: int | None, held: bool) -> None:
    view = cluster(node("a", "unhealthy", retry=tried(attempts, exhausted_us=exhausted_us)))
    finding = ask(R.NEEDS_HUMAN, view)
    assert (finding is not None) is held
    if finding is not None:
        # "2 of 3 were tried" would be no reason to call a person.
        assert finding.numbers == {"attempts": attempts, "allowed": 2 if attempts == 2 else 3}
        assert finding.until_us is None


@pytest.mark.parametrize(
    ("left_us", "held"),
    [
        pytest.param(None, False, id="never-tried"),
        pytest.param(1, True, id="one-microsecond-left"),
        pytest.param(0, False, id="over"),
        pytest.param(1_260_000, True, id="told-in-tenths-of-a-second"),
        pytest.param(3600 * SECOND, True, id="the-longest-rest"),
        pytest.param(
            3600 * SECOND + 1, False, id="longer-than-the-longest: the clock was set back"
        ),
    ],
)
def test_cooling_down(left_us: int | None, held: bool) -> None:
    next_us = None if left_us is None else T0 + left_us
    view = cluster(node("a", "unhealthy", retry=tried(1, next_us=next_us)))
    finding = ask(R.COOLING_DOWN, view)
    assert (finding is not None) is held
    if finding is not None:
        left_s = round((left_us or 0) / SECOND, 1)
        assert finding.numbers == {"attempts": 1, "allowed": 3, "left_s": left_s}
        assert finding.until_us == next_us


def crowd(
    sick: int, suspect: int = 0, well: int = 0, recovering: int = 0, **of: Any
) -> ClusterView:
    nodes = [node(f"s{i}", "unhealthy", domain="z") for i in range(sick)]
    nodes += [node(f"d{i}", "suspect", domain="z") for i in range(suspect)]
    nodes += [node(f"r{i}", recovering=True, domain="z") for i in range(recovering)]
    nodes += [node(f"w{i}", domain="z") for i in range(well)]
    return cluster(*nodes, **{"desired_capacity": 5, **of})


STORMS = [
    pytest.param(crowd(2, well=3), False, id="at-the-threshold"),
    pytest.param(crowd(3, well=2), True, id="above"),
    pytest.param(crowd(1, suspect=2, well=2), True, id="suspects-count"),
    pytest.param(crowd(1, suspect=1, well=3), False, id="not-too-many-suspects"),
    pytest.param(crowd(1, recovering=2, well=2), True, id="recovering-count"),
    pytest.param(crowd(3, well=2, released_until_us=T0 + 1), False, id="released"),
    pytest.param(crowd(3, well=2, released_until_us=T0), True, id="release-over"),
]


@pytest.mark.parametrize(("view", "held"), STORMS)
def test_storm(view: ClusterView, held: bool) -> None:
    finding = ask(R.STORM, view)
    assert (finding is not None) is held


def test_numbers_of_a_storm() -> None:
    view = crowd(2, suspect=1, recovering=1, well=1)
    assert numbers(ask(R.STORM, view)) == {
        "sick": 3,
        "suspect": 1,
        "threshold": 2,
        "capacity": 5,
        "in_flight": 1,
    }


@pytest.mark.parametrize(("view", "held"), STORMS)
def test_domain_storm(view: ClusterView, held: bool) -> None:
    zoned = replace(view, recovery=recovery(domain="zone"), desired_capacity=100)
    finding = ask(R.DOMAIN_STORM, zoned)
    assert (finding is not None) is held
    elsewhere = node("elsewhere", "unhealthy", domain="y")
    beside = replace(zoned, nodes=(*zoned.nodes, elsewhere))
    assert ask(R.DOMAIN_STORM, beside, elsewhere) is None
    assert ask(R.DOMAIN_STORM, beside, node("nowhere", "unhealthy")) is None
    if finding is not None:
        sick, suspect, threshold = tally(zoned, T0).domains["z"]
        expected = {"domain": "z", "sick": sick, "suspect": suspect, "threshold": threshold}
        assert finding.numbers == expected


def test_a_domain_unheard_of_holds_nobody() -> None:
    """Without a domain there is nothing to exceed, whatever the rest of the cluster does."""
    view = cluster(node("a", "unhealthy"), how=recovery(domain="zone"))
    assert ask(R.DOMAIN_STORM, view) is None


@pytest.mark.parametrize("reason", [R.STORM, R.DOMAIN_STORM], ids=str)
@pytest.mark.parametrize(("recovering", "held"), [(0, False), (1, True)], ids=["none", "one"])
def test_slow_heals_one_at_a_time(reason: HoldReason, recovering: int, held: bool) -> None:
    how = recovery(when_exceeded=WhenExceeded.SLOW, domain="zone")
    view = crowd(4, well=1, recovering=recovering, how=how)
    assert (ask(reason, view) is not None) is held


def test_observe_mode() -> None:
    view = cluster(node("a", "unhealthy"), how=recovery(mode=RecoveryMode.OBSERVE))
    found = dict(numbers(ask(R.OBSERVE_MODE, view)))
    assert found.pop("would") == ["RECREATE"]
    (recover,) = decisions(replace(view, recovery=recovery()))
    assert found == recover.numbers


def test_what_is_told_of_a_recovery_counts_suspects_and_those_in_flight_apart() -> None:
    sick = node("a", "unhealthy", left_out=("REBOOT",))
    others = (node("b", "suspect"), node("c", "suspect"), *(node(f"{n}") for n in range(9)))
    view = cluster(sick, *others, how=recovery(mode=RecoveryMode.OBSERVE))
    found = numbers(ask(R.OBSERVE_MODE, view))
    assert (found["sick"], found["suspect"], found["in_flight"]) == (1, 2, 0)
    assert found["left_out"] == ["REBOOT"]
    # A person's word leaves nothing out.
    asked = replace(sick, requested_by="mara")
    assert "left_out" not in numbers(ask(R.OBSERVE_MODE, replace(view, nodes=(asked, *others))))


@pytest.mark.parametrize(
    ("recovering", "limit", "held"),
    [
        pytest.param(1, 2, False, id="room"),
        pytest.param(2, 2, True, id="full"),
        pytest.param(3, 2, True, id="overfull"),
        pytest.param(0, 0, True, id="no-room-ever"),
    ],
)
def test_in_flight(recovering: int, limit: int, held: bool) -> None:
    view = crowd(1, recovering=recovering, how=recovery(max_in_flight=limit))
    finding = ask(R.IN_FLIGHT, view)
    assert (finding is not None) is held
    if finding is not None:
        assert finding.numbers == {"in_flight": recovering, "limit": limit}
