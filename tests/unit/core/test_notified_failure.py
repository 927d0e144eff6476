"""What a notification leads to, and how far its nodes are: two tables, read row by row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from yaffle.core.health.notified_failure import (
    BEGINNINGS,
    LONGEST_US,
    STEPS,
    Begin,
    Member,
    Source,
    Told,
    beginning,
    ended,
    judge,
)
from yaffle.model.health import Health
from yaffle.model.incident import IncidentState
from yaffle.model.instance_ha import MoveStatus, NotificationStatus, NotificationType

HOST, VM, PROCESS = NotificationType.COMPUTE_HOST, NotificationType.VM, NotificationType.PROCESS
FOLLOW, FINISH, IGNORE = Begin.FOLLOW, Begin.FINISH, Begin.IGNORE
ON = {"host_status": "NORMAL"}


@pytest.mark.parametrize(
    ("name", "kind", "event", "more", "begin", "maintenance"),
    [
        ("disabled", HOST, "STOPPED", {**ON, "enabled": False}, IGNORE, False),
        ("disabled", VM, "LIFECYCLE", {"enabled": False}, IGNORE, False),
        ("unclear", HOST, "STOPPED", {}, IGNORE, False),
        ("unclear", HOST, "STOPPED", {"host_status": "UNKNOWN"}, IGNORE, False),
        ("unclear", HOST, "STARTED", {}, IGNORE, False),
        ("back", HOST, "STARTED", ON, FINISH, False),
        ("failed", HOST, "STOPPED", ON, FOLLOW, True),
        ("process-back", PROCESS, "STARTED", {}, FINISH, False),
        ("process-failed", PROCESS, "STOPPED", {}, FINISH, True),
        ("instance", VM, "LIFECYCLE", {}, FOLLOW, False),
        ("instance", VM, "QEMU_GUEST_AGENT_ERROR", {}, FOLLOW, False),
    ],
)
def test_what_is_told_leads_to(name, kind, event, more, begin, maintenance):
    row = beginning(Told(type=kind, event=event, **more))
    assert (row.name, row.begin, row.maintenance) == (name, begin, maintenance)
    assert row.why


def test_every_beginning_has_its_row():
    (marks,) = [m for m in test_what_is_told_leads_to.pytestmark if m.name == "parametrize"]
    assert {row[0] for row in marks.args[1]} == {row.name for row in BEGINNINGS}


WAITED = Source(host="cmp1", moves=True, since_us=0, now_us=1)
THERE = Member(host="cmp1", health=Health.HEALTHY)
OPEN, HELD, RECOVERING = IncidentState.OPEN, IncidentState.HELD, IncidentState.RECOVERING
ILL = replace(THERE, health=Health.UNHEALTHY, why="it is lost")


@pytest.mark.parametrize(
    ("name", "member", "source", "status"),
    [
        ("gone", Member(exists=False), WAITED, MoveStatus.IGNORED),
        ("under-way", replace(ILL, incident=OPEN), WAITED, MoveStatus.ONGOING),
        ("under-way", replace(ILL, incident=HELD), WAITED, MoveStatus.ONGOING),
        ("under-way", replace(ILL, incident=RECOVERING), WAITED, MoveStatus.ONGOING),
        # Moved, and not verified yet.
        ("under-way", replace(THERE, host="cmp2", incident=RECOVERING), WAITED, MoveStatus.ONGOING),
        ("elsewhere", replace(THERE, host="cmp2"), WAITED, MoveStatus.SUCCEEDED),
        ("exhausted", replace(ILL, incident=IncidentState.EXHAUSTED), WAITED, MoveStatus.FAILED),
        (
            "recovered",
            replace(THERE, incident=IncidentState.RECOVERED),
            WAITED,
            MoveStatus.SUCCEEDED,
        ),
        ("well", replace(THERE, found_well=True), WAITED, MoveStatus.IGNORED),
        ("late", ILL, replace(WAITED, now_us=LONGEST_US + 1), MoveStatus.FAILED),
        # Held for so long it keeps nobody from changing its segment any more.
        (
            "late",
            replace(ILL, incident=HELD),
            replace(WAITED, now_us=LONGEST_US + 1),
            MoveStatus.FAILED,
        ),
        ("waited-for", THERE, WAITED, MoveStatus.PENDING),
        ("waited-for", ILL, WAITED, MoveStatus.PENDING),
        # That a check passed counts no longer once it has failed after all.
        ("waited-for", replace(ILL, found_well=True), WAITED, MoveStatus.PENDING),
        (
            "waited-for",
            replace(THERE, health=Health.UNKNOWN, host="cmp2"),
            WAITED,
            MoveStatus.PENDING,
        ),
        ("waited-for", replace(THERE, host=""), WAITED, MoveStatus.PENDING),
        # Of an instance that failed by itself it says nothing that it is somewhere else.
        (
            "waited-for",
            replace(THERE, host="cmp2"),
            replace(WAITED, moves=False),
            MoveStatus.PENDING,
        ),
    ],
)
def test_how_far_a_node_is(name, member, source, status):
    row = next(step for step in STEPS if step.holds(member, source))
    assert row.name == name
    assert judge(member, source) == (status, row.says(member, source))


def test_every_step_has_its_row():
    (marks,) = [m for m in test_how_far_a_node_is.pytestmark if m.name == "parametrize"]
    assert {row[0] for row in marks.args[1]} == {row.name for row in STEPS}


DONE, BAD, LEFT = MoveStatus.SUCCEEDED, MoveStatus.FAILED, MoveStatus.IGNORED
FINISHED, FAILED = NotificationStatus.FINISHED, NotificationStatus.FAILED


@pytest.mark.parametrize(
    ("moves", "status", "false_alarm"),
    [
        ([], FINISHED, False),
        ([DONE, DONE], FINISHED, False),
        ([DONE, LEFT], FINISHED, False),
        ([LEFT, LEFT], FINISHED, True),
        ([BAD, DONE], FAILED, False),
        ([BAD, LEFT], FAILED, False),
    ],
)
def test_how_a_notification_ends(moves, status, false_alarm):
    end = ended(moves)
    assert end is not None
    assert (end.status, end.false_alarm) == (status, false_alarm)


@pytest.mark.parametrize("left", [MoveStatus.PENDING, MoveStatus.ONGOING])
def test_it_does_not_end_while_a_node_is_under_way(left):
    assert ended([DONE, left, BAD]) is None
