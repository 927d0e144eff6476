"""One look at a whole cluster: who is decided upon, in which order, and with which numbers."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
from tests.unit.core.build import (
    CLUSTER,
    SECOND,
    T0,
    cluster,
    decisions,
    node,
    pause,
    recovery,
    tried,
)

from yaffle.core.planning.budgets import Bucket, BudgetLimit, Budgets, Scope
from yaffle.core.planning.cluster_view import ClusterView
from yaffle.core.planning.observer_partition import Blindness
from yaffle.core.planning.planner import COUNTS, VOLATILE, bucket, plan, wake_of
from yaffle.model.ids import NodeId
from yaffle.model.incident import Decision, Hold, HoldReason, Recover
from yaffle.model.policy import RecoveryAction, RecoveryMode, Threshold, WhenExceeded

R = HoldReason
EYES_SHUT = Blindness(asked=2, answered=0, references_asked=0, references_answered=0)


def brief(decision: Decision) -> str:
    if isinstance(decision, Recover):
        overrode = "".join(f" !{reason}" for reason in decision.overrode)
        return f"{decision.node_id} recover{overrode}"
    return f"{decision.node_id} {decision.reason}"


def decide(view: ClusterView, now_us: int = T0) -> list[str]:
    return [brief(d) for d in decisions(view, now_us)]


def sick(*names: str, **changed: Any) -> list[Any]:
    return [node(name, "unhealthy", **changed) for name in names]


def well(count: int, **changed: Any) -> list[Any]:
    return [node(f"w{i}", **changed) for i in range(count)]


@pytest.mark.parametrize(
    ("view", "decisions"),
    [
        pytest.param(cluster(), [], id="empty"),
        pytest.param(cluster(*well(3)), [], id="all-well"),
        pytest.param(
            cluster(node("a", "suspect"), node("b", "unknown"), node("c", "initializing")),
            [],
            id="only-unhealthy-needs-a-decision",
        ),
        pytest.param(cluster(*sick("a"), *well(2)), ["a recover"], id="one-of-three"),
        pytest.param(cluster(*sick("a")), ["a recover"], id="one-of-one"),
        pytest.param(
            cluster(*sick("b", "a"), *well(1)), ["a recover", "b recover"], id="in-order-of-names"
        ),
        pytest.param(cluster(*sick("a", "b", "c")), ["a storm", "b storm", "c storm"], id="storm"),
        pytest.param(
            cluster(*sick("a", "b", "c"), *well(7)),
            ["a recover", "b recover", "c in-flight"],
            id="the-cap-counts-this-pass",
        ),
        pytest.param(
            cluster(*sick("a"), node("r", recovering=True), node("s", recovering=True), *well(7)),
            ["a in-flight"],
            id="the-cap-counts-earlier-passes",
        ),
        pytest.param(
            cluster(*sick("a", recovering=True), *well(2)), [], id="in-recovery-is-decided-already"
        ),
        pytest.param(
            cluster(*sick("a", "b", "c"), how=recovery(when_exceeded=WhenExceeded.SLOW)),
            ["a recover", "b storm", "c storm"],
            id="slow-heals-one",
        ),
        pytest.param(
            cluster(*sick("a", "b", "c"), released_until_us=T0 + 1),
            ["a recover", "b recover", "c in-flight"],
            id="a-release-keeps-the-cap",
        ),
        pytest.param(
            cluster(*sick("a"), *well(2), how=recovery(mode=RecoveryMode.OBSERVE)),
            ["a observe-mode"],
            id="observe",
        ),
        pytest.param(
            cluster(*sick("a", settled=False), *well(2)), ["a resettling"], id="unsettled"
        ),
        pytest.param(
            cluster(*sick("a", settled=False, marked=True), *well(2)), ["a recover"], id="marked"
        ),
        pytest.param(
            cluster(*sick("a", "b"), *well(3), how=recovery(max_unhealthy=Threshold(count=1))),
            ["a storm", "b storm"],
            id="count-of-one",
        ),
    ],
)
def test_decisions(view: ClusterView, decisions: list[str]) -> None:
    assert decide(view) == decisions


ASKED = sick("a", requested_by="ann")


@pytest.mark.parametrize(
    ("view", "decisions"),
    [
        pytest.param(cluster(node("a", requested_by="ann")), ["a recover"], id="of-a-well-node"),
        pytest.param(
            cluster(*ASKED, *sick("b", "c")),
            ["a recover !storm", "b storm", "c storm"],
            id="lifts-the-storm-for-that-node-only",
        ),
        pytest.param(
            cluster(*ASKED, how=recovery(mode=RecoveryMode.OBSERVE)),
            ["a recover !observe-mode"],
            id="lifts-observe-mode",
        ),
        pytest.param(
            cluster(*sick("a", requested_by="ann", retry=tried(1, next_us=T0 + SECOND))),
            ["a recover !cooling-down"],
            id="lifts-cool-down",
        ),
        pytest.param(
            cluster(*sick("a", requested_by="ann", retry=tried(3, exhausted_us=T0))),
            ["a recover !needs-human"],
            id="is-the-human-needed",
        ),
        pytest.param(
            cluster(*sick("z", requested_by="ann"), *sick("a", "b"), *well(7)),
            ["z recover", "a recover", "b in-flight"],
            id="comes-first",
        ),
        pytest.param(cluster(*ASKED, pauses=(pause("stop"),)), ["a stopped"], id="not-the-stop"),
        pytest.param(cluster(*ASKED, pauses=(pause(),)), ["a maintenance"], id="not-maintenance"),
        pytest.param(cluster(*ASKED, lost=("database",)), ["a dependency-lost"], id="not-lost"),
        pytest.param(cluster(*ASKED, blind=EYES_SHUT), ["a blind"], id="not-blindness"),
        pytest.param(
            cluster(*sick("a", requested_by="ann", busy="NODE_UPDATE")),
            ["a node-busy"],
            id="not-busy",
        ),
        pytest.param(
            cluster(*sick("a", requested_by="ann", settled=False)),
            ["a resettling"],
            id="not-an-unsettled-verdict",
        ),
        pytest.param(
            cluster(node("a", requested_by="ann", settled=False)),
            ["a recover !resettling"],
            id="needs-no-verdict-at-all",
        ),
        pytest.param(
            cluster(*ASKED, how=recovery(max_in_flight=0)), ["a in-flight"], id="not-the-cap"
        ),
        pytest.param(
            cluster(node("a", requested_by="ann", recovering=True)), [], id="in-recovery-already"
        ),
    ],
)
def test_a_persons_request(view: ClusterView, decisions: list[str]) -> None:
    assert decide(view) == decisions


def test_a_requested_well_node_makes_the_others_one_sick_more() -> None:
    how = recovery(max_in_flight=9, domain="zone")
    view = cluster(
        node("a", requested_by="ann", domain="z"),
        *sick("b", "c", domain="z"),
        *well(2, domain="z"),
        how=how,
    )
    assert decide(view) == ["a recover", "b storm", "c storm"]
    wide = replace(view, desired_capacity=50)
    assert decide(wide) == ["a recover", "b domain-storm", "c domain-storm"]


def test_a_requested_suspect_is_not_counted_twice() -> None:
    how = recovery(max_in_flight=9, domain="zone")
    view = cluster(
        node("a", "suspect", requested_by="ann", domain="z"),
        *sick("b", domain="z"),
        *well(3, domain="z"),
        how=how,
    )
    assert decide(view) == ["a recover", "b recover"]


def test_a_domain_storm_leaves_the_other_zones_alone() -> None:
    how = recovery(domain="availability_zone")
    view = cluster(
        *sick("a1", "a2", "a3", domain="a"),
        *(node(f"aw{i}", domain="a") for i in range(2)),
        *sick("b1", domain="b"),
        *(node(f"bw{i}", domain="b") for i in range(4)),
        how=how,
    )
    assert decide(view) == ["a1 domain-storm", "a2 domain-storm", "a3 domain-storm", "b1 recover"]


def test_the_first_reason_is_the_one_told() -> None:
    view = cluster(
        *sick("a", "b", "c", busy="NODE_UPDATE", settled=False, retry=tried(9, next_us=T0 + 1)),
        how=recovery(mode=RecoveryMode.OBSERVE, max_in_flight=0),
        blind=EYES_SHUT,
        lost=("prober",),
        pauses=(pause(), pause("stop")),
    )
    seen = []
    for mend in (
        {"pauses": (pause(),)},
        {"pauses": ()},
        {"lost": ()},
        {"blind": None},
        {"nodes": tuple(sick("a", "b", "c", settled=False, retry=tried(9, next_us=T0 + 1)))},
        {"nodes": tuple(sick("a", "b", "c", retry=tried(9, next_us=T0 + 1)))},
        {"nodes": tuple(sick("a", "b", "c", retry=tried(1, next_us=T0 + 1)))},
        {"nodes": tuple(sick("a", "b", "c"))},
        {"nodes": tuple(sick("a"))},
        {"recovery": recovery(mode=RecoveryMode.OBSERVE)},
        {"recovery": recovery()},
    ):
        seen.append(decide(view)[0])
        view = replace(view, **mend)  # type: ignore[arg-type]
    assert [*seen, decide(view)[0]] == [
        "a stopped",
        "a maintenance",
        "a dependency-lost",
        "a blind",
        "a node-busy",
        "a resettling",
        "a needs-human",
        "a cooling-down",
        "a storm",
        "a in-flight",
        "a observe-mode",
        "a recover",
    ]


def test_the_order_of_the_nodes_is_irrelevant() -> None:
    nodes = [*sick("a", "b"), node("c", requested_by="ann"), *well(1)]
    plans = [decisions(cluster(*order)) for order in permutations(nodes)]
    assert all(p == plans[0] for p in plans)


def test_equal_names_are_ordered_by_id() -> None:
    one, two = (replace(n, name="same") for n in sick("1", "2"))
    assert decide(cluster(two, one)) == decide(cluster(one, two)) == ["1 storm", "2 storm"]


def test_what_a_recovery_says() -> None:
    action = RecoveryAction(name="REBOOT", in_place=True)
    view = cluster(
        *sick("a", problem="silent", retry=tried(1)),
        node("b", "suspect"),
        node("c", "unhealthy", recovering=True),
        *well(4),
        how=recovery(action),
    )
    assert decisions(view) == (
        Recover(
            node_id=NodeId("a"),
            cluster_id=CLUSTER,
            ladder=(action,),
            cause="silent",
            numbers={
                "sick": 2,
                "suspect": 1,
                "threshold": 3,
                "in_flight": 1,
                "max_in_flight": 2,
                "attempt": 2,
                "attempts_allowed": 3,
            },
        ),
    )
    assert wake_of(decisions(view)) is None
    (decision,) = decisions(cluster(node("a", requested_by="ann", problem="x")))
    assert isinstance(decision, Recover)
    assert decision.cause == "requested by ann"


def test_what_a_hold_says_and_when_to_look_again() -> None:
    view = cluster(
        *sick("a", retry=tried(1, next_us=T0 + 9 * SECOND)),
        *sick("b", retry=tried(2, next_us=T0 + 5 * SECOND)),
        *sick("c", settled=False),
        desired_capacity=20,
    )
    decided = decisions(view)
    assert wake_of(decided) == T0 + 5 * SECOND
    assert decided[0] == Hold(
        node_id=NodeId("a"),
        cluster_id=CLUSTER,
        reason=R.COOLING_DOWN,
        numbers={"attempts": 1, "allowed": 3, "left_s": 9.0},
        until_us=T0 + 9 * SECOND,
    )


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        pytest.param({"left_s": 9.0}, {"left_s": 1.0}, True, id="time-runs-down"),
        pytest.param({"holders": 1}, {"holders": 2}, True, id="one-more-holder"),
        pytest.param({"sick": 4}, {"sick": 7}, True, id="not-doubled"),
        pytest.param({"sick": 4}, {"sick": 8}, False, id="doubled"),
        pytest.param({"threshold": 4}, {"threshold": 5}, False, id="not-a-count"),
        pytest.param({"lost": ["a"]}, {"lost": ["b"]}, False, id="a-list"),
        pytest.param({"a": 1, "b": 2}, {"b": 2, "a": 1}, True, id="order-is-nothing"),
        pytest.param({}, {"sick": 1}, False, id="something-new"),
    ],
)
def test_a_hold_is_stored_again_when_its_bucket_changes(
    before: dict[str, object], after: dict[str, object], same: bool
) -> None:
    hold = Hold(node_id=NodeId("a"), cluster_id=CLUSTER, reason=R.STORM)
    one, two = (bucket(replace(hold, numbers=numbers)) for numbers in (before, after))
    assert (one == two) is same


def test_another_reason_is_another_bucket() -> None:
    hold = Hold(node_id=NodeId("a"), cluster_id=CLUSTER, reason=R.STORM)
    assert bucket(hold) == ("storm",)
    assert bucket(replace(hold, reason=R.BLIND)) == ("blind",)


def test_no_number_is_both_counted_and_volatile() -> None:
    assert not VOLATILE & COUNTS


def test_an_outdated_belief_is_counted_but_not_decided_upon() -> None:
    """A row that is newer than our belief is no licence to act, and no room for another either."""
    how = recovery(max_in_flight=2, max_unhealthy=Threshold(count=9))
    busy = [node(f"b{i}", "unhealthy", recovering=True, outdated=True) for i in range(2)]
    view = cluster(*busy, *sick("a"), node("o", "unhealthy", outdated=True), how=how)
    assert decide(view) == ["a in-flight"]


def test_a_recovery_that_a_budget_refused_is_not_in_flight() -> None:
    """Nobody is to be told that something is under way which was never begun."""
    spent, full = (Scope.HOST, "h1"), (Scope.HOST, "h2")
    budgets = Budgets(
        limits={Scope.HOST: BudgetLimit(max_in_flight=9, burst=1, per_hour=1.0)},
        buckets={
            spent: Bucket(tokens=0.0, updated_us=T0),
            full: Bucket(tokens=1.0, updated_us=T0),
        },
    )
    nodes = [*sick("a", draws_on=(spent,)), *sick("b", "c", draws_on=(full,))]
    view = cluster(*nodes, *well(7), how=recovery(max_in_flight=1))
    became = list(plan(view, budgets, T0))
    assert [brief(p.decision) for p in became] == ["a rate", "b recover", "c in-flight"]
    assert [sorted(p.asked) for p in became] == [[spent], [full], []]
    assert [dict(p.debited) for p in became] == [{}, {full: Bucket(tokens=0.0, updated_us=T0)}, {}]


def test_what_one_pass_admits_counts_against_the_shared_budgets() -> None:
    key = (Scope.GLOBAL, "all")
    budgets = Budgets(
        limits={Scope.GLOBAL: BudgetLimit(max_in_flight=3, burst=9, per_hour=1.0)},
        buckets={key: Bucket(tokens=9.0, updated_us=T0, in_flight=1)},
    )
    view = cluster(*sick("a", "b", "c", draws_on=(key,)), *well(7), how=recovery(max_in_flight=9))
    became = list(plan(view, budgets, T0))
    assert [brief(p.decision) for p in became] == ["a recover", "b recover", "c in-flight"]
    assert [p.asked[key].in_flight for p in became] == [1, 2, 3]
    assert [p.asked[key].tokens for p in became] == [9.0, 8.0, 7.0]
