"""What stacks and their members say of a node: the table, and which word outweighs which."""

from __future__ import annotations

import pytest

from yaffle.drivers.profiles.heat_stack.api.documents import Link, Resource, Stack
from yaffle.drivers.profiles.heat_stack.status.member_status import newest_copy, reading_of
from yaffle.drivers.profiles.heat_stack.status.members import (
    GONE,
    Member,
    Seen,
    State,
    judge,
    named,
)
from yaffle.drivers.profiles.heat_stack.status.status_mapping import ROWS, UNKNOWN, Means, row_of
from yaffle.model.ids import NodeId
from yaffle.model.operations import Target

NODE = NodeId("n-1")
TARGET = Target(
    node_id=NODE, name="n", physical_id="s-1", profile_type="os.heat.stack-1.0", spec={}
)
RUNS = Seen(up=True, words="server x: status ACTIVE, power 1")
OFF = Seen(up=False, words="server x: status SHUTOFF, power 4")
BUSY = Seen(up=None, words="server x: status REBUILD")


def stack(status: str, *tags: str, created: str = "1", ident: str = "s-1") -> Stack:
    return Stack(id=ident, name="s", status=status, tags=list(tags), created=created)


def member(status: str, kind: str = "OS::Heat::RandomString", *, nested: bool = False) -> Resource:
    links = [Link(rel="nested", href="x")] if nested else []
    return Resource(name="r", type=kind, status=status, physical_id="x", links=links)


def server(status: str) -> Resource:
    return member(status, "OS::Nova::Server")


FINE = judge(member("CREATE_COMPLETE"), None)
SICK = judge(server("CREATE_COMPLETE"), OFF)
DOUBTFUL = judge(server("CREATE_COMPLETE"), BUSY)


@pytest.mark.parametrize(
    ("status", "means"),
    [
        ("CREATE_COMPLETE", Means.MEMBERS),
        ("UPDATE_COMPLETE", Means.MEMBERS),
        ("ROLLBACK_COMPLETE", Means.MEMBERS),
        ("CHECK_COMPLETE", Means.MEMBERS),
        ("CHECK_FAILED", Means.MEMBERS),
        ("SNAPSHOT_FAILED", Means.MEMBERS),
        ("UPDATE_FAILED", Means.AT_BEST_UNCLEAR),
        ("ROLLBACK_FAILED", Means.AT_BEST_UNCLEAR),
        ("RESUME_FAILED", Means.AT_BEST_UNCLEAR),
        ("CREATE_FAILED", Means.DOWN),
        ("DELETE_FAILED", Means.DOWN),
        ("DELETE_COMPLETE", Means.GONE),
        ("DELETE_IN_PROGRESS", Means.UNCLEAR),
        ("CREATE_IN_PROGRESS", Means.UNCLEAR),
        ("UPDATE_IN_PROGRESS", Means.UNCLEAR),
        ("SUSPEND_COMPLETE", Means.UNCLEAR),
        ("INIT_COMPLETE", Means.UNCLEAR),
        ("WHAT_EVER", Means.UNCLEAR),
    ],
)
def test_what_a_status_means(status: str, means: Means) -> None:
    assert row_of(stack(status)).means is means


def test_every_row_is_reached_and_words_that_we_do_not_know_judge_nobody() -> None:
    reached = set()
    for row in ROWS:
        action = next(iter(sorted(row.actions)), "RESTORE")
        reached.add(row_of(stack(f"{action}_{row.outcome or 'COMPLETE'}")))
    assert reached == set(ROWS)
    assert row_of(stack("WHAT_EVER")) is UNKNOWN


@pytest.mark.parametrize(
    ("status", "members", "up"),
    [
        pytest.param("CREATE_COMPLETE", [FINE], True, id="all is well"),
        pytest.param("CREATE_COMPLETE", [], True, id="nothing in it"),
        pytest.param("CREATE_COMPLETE", [FINE, SICK], False, id="a server is off"),
        pytest.param("CREATE_COMPLETE", [FINE, DOUBTFUL], None, id="a server is busy"),
        pytest.param("CREATE_COMPLETE", [SICK, DOUBTFUL], False, id="one off, one busy"),
        pytest.param("UPDATE_FAILED", [FINE], None, id="a bad update harms nobody"),
        pytest.param("UPDATE_FAILED", [FINE, SICK], False, id="update failed, server off"),
        pytest.param("CHECK_FAILED", [FINE], True, id="the mark was lifted"),
        pytest.param("UPDATE_IN_PROGRESS", [SICK], None, id="being changed"),
        pytest.param("SUSPEND_COMPLETE", [SICK], None, id="put to sleep"),
        pytest.param("CREATE_FAILED", [FINE], False, id="never completed"),
    ],
)
def test_what_stack_and_members_say_together(
    status: str, members: list[Member], up: bool | None
) -> None:
    found = reading_of(stack(status), members, TARGET)
    assert found.up is up
    assert found.exists
    assert found.physical_id == "s-1"
    assert status in found.backend_status


def test_what_is_deleted_is_gone() -> None:
    found = reading_of(stack("DELETE_COMPLETE"), (), TARGET)
    assert (found.exists, found.up, found.event) == (False, False, "DELETE")


def test_another_nodes_stack_says_nothing_of_this_one() -> None:
    theirs = stack("CREATE_FAILED", "cluster_node_id=n-2")
    assert reading_of(theirs, (), TARGET).up is None
    mine = stack("CREATE_FAILED", f"cluster_node_id={NODE}")
    assert reading_of(mine, (), TARGET).up is False


def test_the_newest_copy_is_read_of_a_node_that_knows_none() -> None:
    tag = f"cluster_node_id={NODE}"
    older, newer = stack("X_COMPLETE", tag, created="1"), stack("X_COMPLETE", tag, created="2")
    deleted = stack("DELETE_COMPLETE", tag, created="3")
    other = stack("X_COMPLETE", "cluster_node_id=n-11", created="4")
    assert newest_copy(TARGET, [older, newer, deleted, other]) is newer
    assert newest_copy(TARGET, [deleted, other]) is None


@pytest.mark.parametrize(
    ("resource", "seen", "state"),
    [
        pytest.param(server("CREATE_COMPLETE"), RUNS, State.FINE, id="runs"),
        pytest.param(server("CREATE_COMPLETE"), OFF, State.FAILED, id="off behind Heat's back"),
        pytest.param(server("CREATE_COMPLETE"), GONE, State.FAILED, id="gone behind Heat's back"),
        pytest.param(server("CREATE_COMPLETE"), BUSY, State.UNCLEAR, id="busy in Nova"),
        pytest.param(server("CREATE_COMPLETE"), None, State.UNCLEAR, id="Nova not asked"),
        pytest.param(server("UPDATE_FAILED"), RUNS, State.FINE, id="update failed, runs on"),
        pytest.param(server("UPDATE_FAILED"), OFF, State.FAILED, id="update failed, off"),
        pytest.param(server("CREATE_FAILED"), RUNS, State.FAILED, id="never completed"),
        pytest.param(server("CHECK_FAILED"), RUNS, State.FAILED, id="marked, whatever Nova says"),
        pytest.param(server("UPDATE_IN_PROGRESS"), OFF, State.UNCLEAR, id="being replaced"),
        pytest.param(server("DELETE_COMPLETE"), GONE, State.FINE, id="deleted by Heat itself"),
        pytest.param(server("DELETE_FAILED"), RUNS, State.UNCLEAR, id="not deleted"),
        pytest.param(server("INIT_COMPLETE"), None, State.UNCLEAR, id="not made"),
        pytest.param(server("SUSPEND_COMPLETE"), OFF, State.UNCLEAR, id="put to sleep"),
        pytest.param(member("CREATE_COMPLETE"), None, State.FINE, id="no server"),
        pytest.param(member("UPDATE_FAILED"), None, State.UNCLEAR, id="no server, update failed"),
        pytest.param(member("CREATE_FAILED"), None, State.FAILED, id="no server, never made"),
        pytest.param(
            member("CREATE_FAILED", nested=True), None, State.UNCLEAR, id="its members say it"
        ),
    ],
)
def test_how_a_member_is(resource: Resource, seen: Seen | None, state: State) -> None:
    assert judge(resource, seen).state is state


def test_a_few_are_named_and_the_rest_counted() -> None:
    assert named([SICK]) == "r (server x: status SHUTOFF, power 4)"
    assert named([SICK] * 6).endswith(" and 2 more")
