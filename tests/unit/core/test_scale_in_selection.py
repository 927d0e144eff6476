"""Who goes when a cluster shrinks: the sick, the never made, and then by criteria."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yaffle.core.scaling.scale_in_selection import Candidate, choose
from yaffle.model.cluster_policies import Criteria
from yaffle.model.health import Health, NodeStatus
from yaffle.model.ids import NodeId


def node(
    name: str,
    *,
    index: int = 1,
    made_us: int | None = 1,
    status: NodeStatus = NodeStatus.ACTIVE,
    health: Health = Health.HEALTHY,
    tainted: bool = False,
    profile_us: int = 0,
) -> Candidate:
    return Candidate(
        node_id=NodeId(name),
        name=name,
        index=index,
        status=status,
        health=health,
        tainted=tainted,
        created_us=made_us or 0,
        made_us=made_us,
        profile_created_us=profile_us,
    )


def never(_: int) -> int:
    pytest.fail("chance is asked for RANDOM only")


SICK = [
    node("old", made_us=1, index=1),
    node("unmade", made_us=None, index=2, status=NodeStatus.INIT),
    node("tainted", tainted=True, index=3),
    node("warning", status=NodeStatus.WARNING, index=4),
    node("error", status=NodeStatus.ERROR, made_us=None, index=5),
    node("unhealthy", health=Health.UNHEALTHY, index=6),
    node("young", made_us=9, index=7),
    node("suspect", health=Health.SUSPECT, made_us=5, index=8),
]


def test_the_sick_first_then_the_never_made_then_the_oldest() -> None:
    assert choose(SICK, 99, pick=never) == (
        "unhealthy",
        "error",
        "warning",
        "tainted",
        "unmade",
        "old",
        "suspect",
        "young",
    )


@pytest.mark.parametrize(("count", "chosen"), [(2, 2), (0, 0), (-1, 0)])
def test_no_more_than_asked_for(count: int, chosen: int) -> None:
    assert len(choose(SICK, count, pick=never)) == chosen


AGED = [
    node("a", index=3, made_us=20, profile_us=3),
    node("b", index=2, made_us=10, profile_us=3),
    node("c", index=1, made_us=10, profile_us=1),
    node("d", index=1, made_us=30, profile_us=2),
]


@pytest.mark.parametrize(
    ("criteria", "order"),
    [
        (Criteria.OLDEST_FIRST, "cbad"),
        (Criteria.YOUNGEST_FIRST, "dabc"),
        (Criteria.OLDEST_PROFILE_FIRST, "cdba"),
    ],
)
def test_criteria(criteria: Criteria, order: str) -> None:
    assert "".join(choose(AGED, 4, criteria=criteria, pick=never)) == order


def test_the_random_choice_is_the_callers_chance() -> None:
    asked: list[int] = []

    def last(n: int) -> int:
        asked.append(n)
        return n - 1

    assert "".join(choose(AGED, 2, criteria=Criteria.RANDOM, pick=last)) == "ab"
    assert asked == [4, 3, 2, 1]


nodes = st.builds(
    node,
    name=st.uuids().map(str),
    index=st.integers(0, 3),
    made_us=st.none() | st.integers(0, 3),
    status=st.sampled_from(NodeStatus),
    health=st.sampled_from(Health),
    tainted=st.booleans(),
    profile_us=st.integers(0, 3),
)


@given(st.lists(nodes, max_size=12), st.sampled_from(Criteria), st.integers(0, 12), st.randoms())
def test_the_same_nodes_in_any_order_lose_the_same(
    members: list[Candidate], criteria: Criteria, count: int, chance: object
) -> None:
    shuffled = list(members)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    chosen = choose(members, count, criteria=criteria, pick=lambda n: n // 2)
    assert chosen == choose(shuffled, count, criteria=criteria, pick=lambda n: n // 2)
    assert len(set(chosen)) == min(count, len(members))


@given(st.lists(nodes, min_size=1, max_size=8), st.sampled_from(Criteria))
def test_a_node_judged_unhealthy_goes_before_all_others(
    members: list[Candidate], criteria: Criteria
) -> None:
    well = [replace(m, health=Health.HEALTHY) for m in members]
    sick = node("sick", health=Health.UNHEALTHY, made_us=2, index=9)
    assert choose([*well, sick], 1, criteria=criteria, pick=lambda _: 0) == ("sick",)
