"""A guest that has gone off a moment ago: Nova calls its server ACTIVE, and refuses to start it yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.openstack.standing import US, Nova, World, of

from yaffle.drivers.profiles.nova_server.operations import inplace, rebuild
from yaffle.drivers.profiles.nova_server.tracking.operation import SETTLE_S
from yaffle.errors import Conflict
from yaffle.integrations.openstack.servers.documents import Action, Event
from yaffle.model.operations import ProgressState

ABSENT, DONE, FAILED = ProgressState.ABSENT, ProgressState.DONE, ProgressState.FAILED
RUNNING = ProgressState.RUNNING
SHUTDOWN = 4


class Strict(Nova):
    """Starts only what it calls SHUTOFF, as the real one does."""

    def do(self, ident: str, body: Mapping[str, Any], **more: object) -> Any:
        assert self.server is not None
        if "os-start" in body and (self.server.locked or self.server.status != "SHUTOFF"):
            self.asked.append("os-start, refused")
            state = self.server.status.lower()
            why = "is locked" if self.server.locked else f"while it is in vm_state {state}"
            raise Conflict(f"Cannot 'start' instance s {why}")
        answer = super().do(ident, body, **more)
        (what,) = body
        assert self.record is not None
        ended = Event(event=f"compute_{what}", result="Success", host="cmp1")
        name = what.removeprefix("os-")
        act = Action(action=name, request_id=answer.request_id, user_id=US, events=[ended])
        self.record.insert(0, act)
        return answer

    def stops_it(self) -> None:
        """Do what Nova does a moment after it has written the power state."""
        assert self.server is not None
        assert self.record is not None
        self.server = replace(self.server, status="SHUTOFF", updated="T2")
        self.record.insert(0, Action(action="stop", request_id="r-n", user_id=None, events=[]))


@pytest.mark.parametrize("taken_over", [False, True])
def test_it_is_started_once_nova_has_written_that_down(taken_over: bool) -> None:
    nova = Strict(of(None, "ACTIVE", SHUTDOWN))
    world = World(nova)
    early = world.do(inplace.submit, "START")
    assert early.state is RUNNING
    assert "once Nova has written down that it is off" in early.detail
    assert world.do(inplace.poll, "START").state is ABSENT, "it is to be asked for again"
    nova.stops_it()
    if taken_over:
        world.taken_over()
        world.clock.at_s += 60
    assert world.do(inplace.submit, "START").state is RUNNING
    assert world.do(inplace.poll, "START").state is DONE
    assert nova.asked.count("os-start") == 1


def test_what_is_refused_for_another_reason_is_refused() -> None:
    """A locked server, say: what comes next on the ladder is not kept waiting."""
    locked = World(Strict(replace(of(None, "ACTIVE", SHUTDOWN), locked=True)))
    assert locked.do(inplace.submit, "START").state is FAILED
    wiped = World(Strict(of(None, "ACTIVE", 0)))
    assert wiped.do(inplace.submit, "START").state is FAILED


def test_what_nova_does_not_stop_is_not_waited_for_long() -> None:
    """Its host has died in between, say: there are other rungs."""
    world = World(Strict(of(None, "ACTIVE", SHUTDOWN)))
    looks = 0
    while (early := world.do(inplace.submit, "START")).state is RUNNING and looks < SETTLE_S:
        looks += 1
        world.clock.at_s += 2
    assert early.state is FAILED
    assert looks == SETTLE_S / 2
    taken = World(Strict(of("image_uploading", "ACTIVE", SHUTDOWN)))
    assert taken.do(inplace.submit, "START").state is FAILED, "Nova leaves it as it is meanwhile"


def test_what_a_rebuild_leaves_off_is_switched_on_all_the_same() -> None:
    class LeavesOff(Strict):
        def do(self, ident: str, body: Mapping[str, Any], **more: object) -> Any:
            answer = super().do(ident, body, **more)
            assert self.server is not None
            if "rebuild" in body:
                marks = body["rebuild"]["metadata"]
                self.server = replace(self.server, power_state=SHUTDOWN, metadata=marks)
            return answer

    nova = LeavesOff(replace(of(None, "ACTIVE", SHUTDOWN), image={"id": "i-1"}))
    world = World(nova)
    world.do(rebuild.submit, "REBUILD")
    off = world.do(rebuild.poll, "REBUILD")
    assert off.state is ABSENT, off
    assert "to be switched on" in off.detail
    assert "not switched on yet" in world.do(rebuild.submit, "REBUILD").detail
    nova.stops_it()
    world.do(rebuild.submit, "REBUILD")
    assert world.do(rebuild.poll, "REBUILD").state is DONE
    assert [what for what in nova.asked if "refused" not in what] == ["rebuild", "os-start"]
