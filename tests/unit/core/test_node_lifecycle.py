"""The table of a node's status: every event, from every status."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from yaffle.core.health.node_lifecycle import (
    OUTLIVED,
    REASON_MAX,
    TABLE,
    WATCHED,
    NodeEvent,
    at_rest,
    move,
    remark,
)
from yaffle.model.health import Health, NodeStatus

S = NodeStatus
DELETIONS = {e for e in NodeEvent if e.name.startswith("DELETE_")}


@dataclass(frozen=True, kw_only=True)
class Facts:
    status: str = "ACTIVE"
    physical_id: str = "i-1"
    health: str = "healthy"
    mark_reason: str | None = None
    left_as_it_is: str = ""


def test_every_event_has_a_row() -> None:
    assert TABLE.keys() == set(NodeEvent)


@pytest.mark.parametrize("event", NodeEvent, ids=str)
@pytest.mark.parametrize("status", NodeStatus, ids=str)
def test_an_event_moves_what_its_row_names_and_nothing_else(
    event: NodeEvent, status: NodeStatus
) -> None:
    becomes = move(Facts(status=status.value), event, "so")
    rule = TABLE[event]
    if status not in rule.leaves:
        assert becomes == {}
    else:
        assert becomes == {"status": (rule.becomes or S.ACTIVE).value, "status_reason": "so"}
        assert type(becomes["status"]) is str, "drivers of databases are handed plain words"


@pytest.mark.parametrize("event", sorted(set(NodeEvent) - DELETIONS), ids=str)
def test_nothing_but_its_deletion_moves_a_node_that_is_being_deleted(event: NodeEvent) -> None:
    assert move(Facts(status="DELETING"), event, "so") == {}


def test_only_a_deletion_makes_a_node_one_that_is_being_deleted() -> None:
    assert {e for e, rule in TABLE.items() if rule.becomes is S.DELETING} == {
        NodeEvent.DELETE_BEGUN
    }


@pytest.mark.parametrize("event", NodeEvent, ids=str)
def test_a_status_that_is_not_known_here_is_left_by_what_leaves_any(event: NodeEvent) -> None:
    stays = event in {NodeEvent.LEFT_ALONE, NodeEvent.BECAME_WELL}
    assert (move(Facts(status="SLEEPING"), event, "so") == {}) is stays
    assert remark(Facts(status="SLEEPING"), "so") == {"status_reason": "so"}


def test_the_watch_moves_no_node_that_is_being_worked_on() -> None:
    for event in (NodeEvent.LEFT_ALONE, NodeEvent.BECAME_WELL):
        assert TABLE[event].leaves <= WATCHED
    assert WATCHED.isdisjoint({S.CREATING, S.UPDATING, S.OPERATING, S.DELETING})
    assert WATCHED - {S.ACTIVE} == OUTLIVED


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        (Facts(), S.ACTIVE),
        (Facts(health="unknown"), S.ACTIVE),
        (Facts(physical_id=""), S.ERROR),
        (Facts(physical_id="", health="unhealthy"), S.ERROR),
        (Facts(health=Health.UNHEALTHY.value), S.WARNING),
        (Facts(mark_reason="broken"), S.WARNING),
        (Facts(left_as_it_is="its user stopped it"), S.WARNING),
    ],
)
def test_at_rest_the_row_says_it(facts: Facts, status: NodeStatus) -> None:
    assert at_rest(facts) is status
    for event in (NodeEvent.CHANGED, NodeEvent.SPARED, NodeEvent.DELETE_SPARED):
        assert move(facts, event, "")["status"] == status


def test_a_reason_is_cut_to_what_the_column_holds() -> None:
    for values in (move(Facts(), NodeEvent.CREATED, "x" * 9999), remark(Facts(), "x" * 9999)):
        assert values["status_reason"] == "x" * REASON_MAX


def test_a_remark_leaves_a_deletion_alone() -> None:
    assert remark(Facts(status="ERROR"), "so") == {"status_reason": "so"}
    assert remark(Facts(status="DELETING"), "so") == {}
