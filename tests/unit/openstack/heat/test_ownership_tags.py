"""What is left on a stack is read back, and fits into what Heat takes for a tag."""

from __future__ import annotations

import uuid

import pytest

from yaffle.drivers.profiles.heat_stack.api.documents import Stack
from yaffle.drivers.profiles.heat_stack.status.ownership_tags import (
    Mark,
    mark_of,
    name_of,
    stranger,
    tags_for,
)
from yaffle.model.ids import ClusterId, NodeId
from yaffle.model.operations import Target

TAG_MAX = 80
"""Heat's bound."""
TARGET = Target(
    node_id=NodeId(str(uuid.uuid4())),
    name="n",
    physical_id="s",
    cluster_id=ClusterId(str(uuid.uuid4())),
    index=12345,
    profile_type="os.heat.stack-1.0",
    spec={},
)
MARK = Mark(
    operation_id=str(uuid.uuid4()),
    kind="STACK_UPDATE",
    at_us=1_795_232_959_113_144,
    before="2026-11-21T03:25:36Z",
)


def stack(tags: str) -> Stack:
    return Stack(id="s", name="s", status="CREATE_COMPLETE", tags=tags.split(","))


def test_a_mark_is_read_as_it_was_written_and_other_tags_are_kept() -> None:
    before = tags_for(TARGET, MARK, ["web", "role=db"])
    after = tags_for(TARGET, None, before.split(","))
    assert mark_of(stack(before)) == MARK
    assert mark_of(stack(after)) is None
    assert after.split(",")[:2] == before.split(",")[:2] == ["web", "role=db"]
    assert all(len(tag) <= TAG_MAX for tag in before.split(","))
    assert stranger(stack(before), TARGET) == ""
    alone = Target(
        node_id=NodeId("n-2"), name="", physical_id="", profile_type=TARGET.profile_type, spec={}
    )
    assert str(TARGET.node_id) in stranger(stack(before), alone)
    assert stranger(stack("web"), alone) == ""
    assert "cluster_id" not in tags_for(alone, None)


@pytest.mark.parametrize(
    "note", ["", "KIND", "KIND x -", "KIND 1", "KIND 1 - more"], ids=lambda note: note or "empty"
)
def test_a_spoilt_mark_is_none(note: str) -> None:
    assert mark_of(stack(f"yaffle_operation=a,yaffle_operation_note={note}")) is None


def test_the_name_is_one_that_heat_takes_and_the_nodes_own() -> None:
    name = name_of(TARGET.node_id)
    assert name[0].isalpha()
    assert name.replace("-", "").isalnum()
    assert name != name_of(NodeId(str(uuid.uuid4())))
