"""What several modes say of one node stands beside each other."""

from __future__ import annotations

import pytest
from tests.unit.core.build import STATUS, T0, URL, detection, feed, memory, observation

from yaffle.engine.detection.health_persistence import Saved
from yaffle.engine.detection.health_tracker import HealthTracker
from yaffle.model.health import Observation, OtherCopy
from yaffle.model.ids import NodeId

NODE = NodeId("n1")
HOW = detection(STATUS, URL)
LATE = OtherCopy(known="old", present="new", attributes={"host": "cmp1"})


def healthy() -> HealthTracker:
    """The beliefs of a node that is well, all of it stored."""
    beliefs = HealthTracker()
    for mode in (STATUS, URL):
        before = beliefs.memories.get(NODE, memory())
        beliefs.memories[NODE] = feed(before, ["pass", "pass"], HOW, mode=mode)
    beliefs.stored({NODE: Saved.of_memory(beliefs.memories[NODE], None)})
    assert not beliefs.unsaved(disturbed=False)
    return beliefs


@pytest.mark.parametrize(
    ("seen", "due"),
    [
        pytest.param([observation("pass", copy=LATE)], True, id="another copy is there"),
        pytest.param(
            [observation("pass", copy=LATE), observation("pass", mode=URL)],
            True,
            id="another mode knows nothing of copies",
        ),
        pytest.param(
            [observation("pass", copy=LATE), observation("pass", T0 + 1)],
            False,
            id="who said so takes it back",
        ),
    ],
)
def test_a_copy_is_forgotten_by_who_has_seen_it_only(seen: list[Observation], due: bool) -> None:
    beliefs = healthy()
    beliefs.take(seen, HOW, T0)
    assert (NODE in beliefs.unsaved(disturbed=False)) is due
    assert beliefs.is_unsaved is due


def test_what_was_stored_is_due_no_more() -> None:
    beliefs = healthy()
    beliefs.take([observation("pass", copy=LATE)], HOW, T0)
    beliefs.stored({NODE: Saved.of_memory(beliefs.memories[NODE], None)})
    assert not beliefs.unsaved(disturbed=False)
