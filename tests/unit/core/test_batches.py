"""Batches of updates and deletions: everybody once, and enough nodes always in service."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yaffle.core.batches import Member, for_delete, for_update
from yaffle.model.ids import NodeId


def cluster(text: str) -> list[Member]:
    """One letter per node: capital in service, small not."""
    return [
        Member(node_id=NodeId(letter), index=place, in_service=letter.isupper())
        for place, letter in enumerate(text)
    ]


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
        pytest.param("AbcdE", 2, 2, ["bc", "dA", "E"], id="too-small-with-bad-ones"),
        pytest.param("abc", 1, 2, ["ab", "c"], id="none-in-service"),
        pytest.param("ABC", 0, 0, ["A", "B", "C"], id="a-size-of-none-is-one"),
    ],
)
def test_update(nodes: str, min_in_service: int, max_batch_size: int, plan: list[str]) -> None:
    found = for_update(cluster(nodes), min_in_service=min_in_service, max_batch_size=max_batch_size)
    assert ["".join(batch) for batch in found] == plan


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


@given(members, st.integers(0, 20), st.integers(1, 20) | st.just(-1), st.booleans())
def test_every_batch_keeps_the_promises(
    nodes: list[Member], min_in_service: int, max_batch_size: int, update: bool
) -> None:
    if update:
        plan = for_update(nodes, min_in_service=min_in_service, max_batch_size=max_batch_size)
    else:
        plan = for_delete(nodes, max_batch_size=max_batch_size)
    assert sorted(n for batch in plan for n in batch) == sorted(m.node_id for m in nodes)
    serving = {m.node_id for m in nodes if m.in_service}
    for batch in plan:
        assert batch
        assert max_batch_size == -1 or len(batch) <= max_batch_size
        gone = len(serving & set(batch))
        if update:
            assert gone <= 1 or len(serving) - gone >= min_in_service
