"""Batches of updates and deletions: everybody once, and enough nodes always in service."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yaffle.core.scaling.batches import Member, for_delete, next_update
from yaffle.model.ids import NodeId


def cluster(text: str) -> list[Member]:
    """One letter per node: capital in service, small not."""
    return [
        Member(node_id=NodeId(letter), index=place, in_service=letter.isupper())
        for place, letter in enumerate(text)
    ]


def roll(nodes: list[Member], min_in_service: int, max_batch_size: int) -> list[str]:
    """Update batch after batch; what was updated serves."""
    old, new, plan = list(nodes), 0, []
    while True:
        serving = new + sum(m.in_service for m in old)
        batch = next_update(
            old,
            serving=serving,
            whole=len(nodes),
            min_in_service=min_in_service,
            max_batch_size=max_batch_size,
        )
        if not batch:
            return plan
        plan.append("".join(batch))
        old = [m for m in old if m.node_id not in batch]
        new += len(batch)


@pytest.mark.parametrize(
    ("nodes", "min_in_service", "max_batch_size", "plan"),
    [
        pytest.param("", 1, -1, [], id="no-nodes"),
        pytest.param("ABCD", 0, -1, ["ABCD"], id="all-at-once"),
        pytest.param("ABCD", 1, -1, ["ABC", "D"], id="one-stays"),
        pytest.param("ABCDE", 2, 2, ["AB", "CD", "E"], id="small-batches"),
        pytest.param("ABC", 1, 9, ["AB", "C"], id="a-size-that-would-leave-too-few"),
        pytest.param("ABC", 3, -1, ["A", "B", "C"], id="too-small-still-goes"),
        pytest.param("ABC", 9, 2, ["A", "B", "C"], id="far-too-small-still-goes"),
        pytest.param("AbCd", 1, -1, ["bdA", "C"], id="bad-ones-first-and-free"),
        pytest.param("AbcdE", 2, 2, ["bc", "dA", "E"], id="bad-ones-that-come-back-count"),
        pytest.param("AbC", 3, -1, ["b", "A", "C"], id="too-small-waits-for-the-bad-one"),
        pytest.param("abc", 1, 2, ["ab", "c"], id="none-in-service"),
        pytest.param("ABC", 0, 0, ["A", "B", "C"], id="a-size-of-none-is-one"),
    ],
)
def test_update(nodes: str, min_in_service: int, max_batch_size: int, plan: list[str]) -> None:
    assert roll(cluster(nodes), min_in_service, max_batch_size) == plan


@pytest.mark.parametrize(
    ("left", "serving", "whole", "batch"),
    [
        pytest.param("CD", 4, 4, "C", id="all-well"),
        pytest.param("CD", 3, 4, "", id="one-that-was-updated-fell-ill"),
        pytest.param("cD", 3, 4, "c", id="one-that-is-left-fell-ill"),
        pytest.param("D", 2, 3, "", id="too-small-and-one-ill"),
    ],
)
def test_a_node_that_fails_during_the_roll_out_leaves_room_for_one_less(
    left: str, serving: int, whole: int, batch: str
) -> None:
    found = next_update(cluster(left), serving=serving, whole=whole, min_in_service=3)
    assert "".join(found) == batch


@pytest.mark.parametrize(
    ("nodes", "max_batch_size", "plan"),
    [
        pytest.param("", -1, [], id="no-nodes"),
        pytest.param("ABCD", -1, ["ABCD"], id="all-at-once"),
        pytest.param("ABcDE", 2, ["cA", "BD", "E"], id="bad-ones-first"),
    ],
)
def test_delete(nodes: str, max_batch_size: int, plan: list[str]) -> None:
    found = for_delete(cluster(nodes), max_batch_size=max_batch_size)
    assert ["".join(batch) for batch in found] == plan


members = st.lists(st.booleans(), max_size=20).map(
    lambda states: [
        Member(node_id=NodeId(str(place)), index=place, in_service=state)
        for place, state in enumerate(states)
    ]
)


@given(members, st.integers(1, 20) | st.just(-1))
def test_everybody_is_deleted_once(nodes: list[Member], max_batch_size: int) -> None:
    plan = for_delete(nodes, max_batch_size=max_batch_size)
    assert sorted(n for batch in plan for n in batch) == sorted(m.node_id for m in nodes)
    assert all(batch and (max_batch_size == -1 or len(batch) <= max_batch_size) for batch in plan)


@given(members, st.integers(0, 20), st.integers(0, 20), st.integers(1, 20) | st.just(-1))
def test_every_batch_of_an_update_keeps_the_promises(
    nodes: list[Member], others: int, min_in_service: int, max_batch_size: int
) -> None:
    whole, serving = len(nodes) + others, others + sum(m.in_service for m in nodes)
    batch = next_update(
        nodes,
        serving=serving,
        whole=whole,
        min_in_service=min_in_service,
        max_batch_size=max_batch_size,
    )
    assert len(set(batch)) == len(batch)
    assert max_batch_size == -1 or len(batch) <= max_batch_size
    gone = len({m.node_id for m in nodes if m.in_service} & set(batch))
    small = whole <= min_in_service
    assert gone == 0 or serving - gone >= min_in_service or (small and gone == 1)
