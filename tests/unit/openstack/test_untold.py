"""A Nova that does not say what was done to a server: nothing is begun twice for that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.openstack.standing import US, Nova, World, of

from yaffle.drivers.profiles.nova_server.operations import evacuate, inplace
from yaffle.drivers.profiles.nova_server.tracking.operation import SETTLE_S
from yaffle.errors import Conflict
from yaffle.integrations.openstack.servers.documents import Action, Event, Service
from yaffle.model.operations import ProgressState

DONE, FAILED, RUNNING = ProgressState.DONE, ProgressState.FAILED, ProgressState.RUNNING


@pytest.mark.parametrize("taken_over", [False, True])
def test_an_act_is_judged_by_what_the_server_is(taken_over: bool) -> None:
    world = World(Nova(of(None, "SHUTOFF", power=4), record=None))
    assert world.do(inplace.submit, "START").state is RUNNING
    asked = list(world.nova.asked)
    assert world.nova.server is not None
    if taken_over:
        world.taken_over()
    world.nova.server = replace(world.nova.server, status="SHUTOFF", task_state="powering-on")
    assert world.do(inplace.poll, "START").state is RUNNING
    world.nova.server = replace(world.nova.server, task_state=None, power_state=4)
    world.clock.at_s += 300
    # Whether the start has come to nothing or not begun: it is asked for once, and its time ends.
    assert world.do(inplace.poll, "START").state is RUNNING
    assert world.do(inplace.submit, "START").state is RUNNING
    assert world.nova.asked == asked
    world.nova.server = replace(world.nova.server, status="ACTIVE", power_state=1)
    assert world.do(inplace.poll, "START").state is DONE


def test_what_is_still_where_it_was_is_not_moved_again_and_again() -> None:
    service = Service(id="1", host="cmp1", state="down", status="enabled", forced_down=True)
    there = replace(of(None), host="cmp1", host_status="DOWN")
    world = World(Nova(there, record=None, hosts={"cmp1": service}))
    assert world.do(evacuate.submit, "EVACUATE").state is RUNNING
    assert world.do(evacuate.poll, "EVACUATE").state is RUNNING, "it may not have begun yet"
    world.clock.at_s += SETTLE_S
    ended = world.do(evacuate.poll, "EVACUATE")
    assert ended.state is FAILED
    assert "it is still on cmp1, and Nova does not tell how often that was tried" in ended.detail
    assert world.nova.asked.count("evacuate") == 1


def test_a_reboot_of_which_nothing_tells_is_not_called_done() -> None:
    world = World(Nova(of(None), record=None))
    assert world.do(inplace.submit, "REBOOT").state is RUNNING
    assert world.do(inplace.poll, "REBOOT").state is DONE, "Nova has answered"
    world = World(Nova(of(None), record=None))
    assert world.do(inplace.submit, "REBOOT").state is RUNNING
    # Another engine finds the mark, and not whether the request for it ever came.
    world.taken_over()
    assert world.do(inplace.poll, "REBOOT").state is RUNNING
    world.clock.at_s += SETTLE_S
    ended = world.do(inplace.poll, "REBOOT")
    assert ended.state is FAILED
    assert "does not tell whether it was begun" in ended.detail
    assert world.nova.asked.count("reboot") == 1


def test_a_cloud_that_lists_acts_and_shows_none_in_full_is_asked_once() -> None:
    act = Action(action="start", request_id="r-1", user_id=US)
    world = World(ListsOnly(of(None, "SHUTOFF", power=4), record=[act]))
    assert world.do(inplace.submit, "START").state is RUNNING
    world.clock.at_s += 300
    assert world.do(inplace.poll, "START").state is DONE
    world.nova.server = of(None, "SHUTOFF", power=4)
    assert world.do(inplace.poll, "START").state is RUNNING
    assert world.do(inplace.submit, "START").state is RUNNING
    assert world.nova.asked.count("os-start") == 1


class ListsOnly(Nova):
    """Its policy allows the list of acts, and none of them alone."""

    def act(self, ident: str, request_id: str) -> Action | None:
        return None


@pytest.mark.parametrize("status", ["ACTIVE", "ERROR"])
def test_what_has_not_left_its_host_has_not_moved(status: str) -> None:
    service = Service(id="1", host="cmp1", state="down", status="enabled", forced_down=True)
    there = replace(of(None, status), host="cmp1", host_status="DOWN")
    world = World(Stays(there, hosts={"cmp1": service}))
    for tried in range(1, evacuate.TRIES + 1):
        assert world.do(evacuate.submit, "EVACUATE").state is RUNNING
        assert world.nova.asked.count("evacuate") == tried
        if tried < evacuate.TRIES:
            # To ask again is to act: only a submit does, which whoever may stop us guards.
            assert world.do(evacuate.poll, "EVACUATE").state is ProgressState.ABSENT
            assert world.nova.asked.count("evacuate") == tried
    ended = world.do(evacuate.poll, "EVACUATE")
    assert ended.state is FAILED
    assert ended.left_host == "cmp1"
    assert world.nova.asked.count("evacuate") == evacuate.TRIES


class Stays(Nova):
    """Its evacuations end, and their server is where it was; in ERROR it cannot be written on."""

    def mark(self, ident: str, metadata: Mapping[str, str]) -> None:
        raise Conflict("Cannot update metadata just now")

    def do(self, ident: str, body: Mapping[str, Any], **_: object) -> Any:
        (what,) = body
        self.asked.append(what)
        request_id = f"r-{len(self.asked)}"
        over = Event(event="compute_rebuild_instance", result="Success", host="cmp2")
        assert self.record is not None
        self.record.insert(0, Action(action=what, request_id=request_id, user_id=US, events=[over]))
        assert self.server is not None
        self.server = replace(self.server, status="ACTIVE")
        return type("Answer", (), {"request_id": request_id})
