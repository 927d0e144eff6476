"""How far an act is, from what Nova shows and remembers: every combination that matters."""

from __future__ import annotations

import pytest

from yaffle.drivers.profiles.nova_server.api.documents import Server
from yaffle.drivers.profiles.nova_server.tracking.action_progress import (
    act_after,
    build_failed,
    judge,
)
from yaffle.drivers.profiles.nova_server.tracking.operation import SETTLE_S
from yaffle.drivers.profiles.nova_server.tracking.verbs import VERBS
from yaffle.integrations.openstack.servers.documents import Action, Event, Fault
from yaffle.model.operations import ProgressState

ABSENT, DONE = ProgressState.ABSENT, ProgressState.DONE
FAILED, RUNNING = ProgressState.FAILED, ProgressState.RUNNING


def server(status: str = "ACTIVE", power: int = 1, task: str | None = None) -> Server:
    fault = Fault(message="boom") if status == "ERROR" else None
    return Server(id="s", status=status, power_state=power, task_state=task, fault=fault)


def act(*results: str | None, message: str | None = None, hidden: bool = False) -> Action:
    events = [Event(event="compute_x", result=r, details="why" if r else None) for r in results]
    return Action(
        action="reboot", request_id="req-1", message=message, events=None if hidden else events
    )


@pytest.mark.parametrize(
    ("seen", "record", "waited_s", "state"),
    [
        pytest.param(server(), None, 0.0, RUNNING, id="marked just now"),
        pytest.param(server(), None, SETTLE_S, ABSENT, id="marked, and never acted"),
        pytest.param(server("HARD_REBOOT", task="rebooting_hard"), act(None), 1, RUNNING, id="under way"),
        pytest.param(server(), act(), 1.0, RUNNING, id="recorded, on no host yet"),
        pytest.param(server(), act(None), 1.0, RUNNING, id="begun, not ended"),
        pytest.param(server(), act("Success"), 1.0, DONE, id="done"),
        pytest.param(server(), act("Success", None), 1.0, RUNNING, id="a part is missing"),
        pytest.param(server("ERROR"), act("Error"), 1.0, FAILED, id="failed into ERROR"),
        pytest.param(server(), act("Error", message="Error"), 1.0, FAILED, id="failed, runs on"),
        pytest.param(server("ERROR"), act("Success"), 1.0, FAILED, id="done, and ERROR"),
        pytest.param(server(task="rebooting"), act("Error"), 1.0, RUNNING, id="failed, still at it"),
        pytest.param(server(power=0), act("Success"), 1.0, DONE, id="done; how it is, others judge"),
        pytest.param(server(), act(hidden=True), 1.0, DONE, id="parts hidden, goal reached"),
        pytest.param(server("SHUTOFF", 4), act(hidden=True), 1.0, RUNNING, id="parts hidden, not"),
    ],
)  # fmt: skip
def test_how_far_it_is(
    seen: Server, record: Action | None, waited_s: float, state: ProgressState
) -> None:
    assert judge(VERBS["REBOOT"], seen, record, waited_s=waited_s).state is state


def test_why_a_build_failed_is_waited_for_but_not_for_ever() -> None:
    silent = Server(id="s", status="ERROR", power_state=0)
    assert build_failed(silent, waited_s=1.0).state is RUNNING
    assert build_failed(silent, waited_s=SETTLE_S).state is FAILED
    told = build_failed(server("ERROR"), waited_s=1.0)
    assert (told.state, told.physical_id) == (FAILED, "s")
    assert "boom" in told.detail


def test_a_failure_tells_what_nova_says() -> None:
    said = judge(VERBS["REBOOT"], server("ERROR"), act("Error"), waited_s=1.0).detail
    assert "why" in said
    assert "boom" in said


def acts(*names: str, user: str = "me") -> list[Action]:
    """Newest first, as Nova lists them; ids count from the oldest."""
    total = len(names)
    return [
        Action(action=name, request_id=f"req-{total - place}", user_id=user)
        for place, name in enumerate(names)
    ]


@pytest.mark.parametrize(
    ("listed", "before", "found"),
    [
        pytest.param(acts("reboot", "create"), "req-1", "req-2", id="ours"),
        pytest.param(acts("reboot", "create"), "req-2", None, id="older than the mark"),
        pytest.param(acts("stop", "reboot", "create"), "req-1", "req-2", id="another came after"),
        pytest.param(acts("stop", "create"), "req-1", None, id="only another"),
        pytest.param(acts("reboot", user="you"), "", None, id="somebody else's"),
        pytest.param(acts("reboot", "reboot", "create"), "req-1", "req-3", id="the newest of two"),
        pytest.param([], "", None, id="nothing was ever done"),
    ],
)
def test_which_act_is_the_one_that_the_mark_announced(
    listed: list[Action], before: str, found: str | None
) -> None:
    seen = act_after(listed, "reboot", before, "me")
    assert (seen.request_id if seen else None) == found
