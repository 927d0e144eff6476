"""What is over but for its last step: a server that Nova has left off, and that has to run.

To switch it on is to act. So a poll says that there is something to begin, and a submit begins it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace as changed
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.openstack.standing import US, Nova, World, of

from yaffle.drivers.profiles.nova_server.api.documents import Server
from yaffle.drivers.profiles.nova_server.operations import evacuate, rebuild, update
from yaffle.drivers.profiles.nova_server.tracking.operation import ServerOperation
from yaffle.errors import Conflict
from yaffle.integrations.openstack.servers.documents import Action, Event, Service
from yaffle.model.operations import Progress, ProgressState

ABSENT, DONE, RUNNING = ProgressState.ABSENT, ProgressState.DONE, ProgressState.RUNNING
DOWN = Service(id="1", host="cmp1", state="down", status="enabled", forced_down=True)
Step = Callable[[ServerOperation], Progress]


class LeavesOff(Nova):
    """What it rebuilds or moves comes out switched off; and starts when it is asked to."""

    busy = False

    def do(self, ident: str, body: Mapping[str, Any], **_: object) -> Any:
        assert self.server is not None
        assert self.record is not None
        (what,) = body
        self.asked.append(what)
        if self.busy:
            raise Conflict("Cannot do that while it is in task_state powering-on")
        number = f"r-{len(self.asked)}"
        ended = Event(event="compute_did_it", result="Success", host="cmp2")
        self.record.insert(0, Action(action=what, request_id=number, user_id=US, events=[ended]))
        on = what == "os-start"
        self.server = replace(
            self.server,
            status="ACTIVE" if on else "SHUTOFF",
            power_state=1 if on else 4,
            host="cmp2",
            image="new",
            metadata={**self.server.metadata, **body[what].get("metadata", {})}
            if what == "rebuild"
            else self.server.metadata,
        )
        return type("Answer", (), {"request_id": number})

    def image_id(self, given: str) -> str:
        return given


def world_of(kind: str) -> World:
    there = replace(of(None), host="cmp1", host_status="DOWN" if kind == "EVACUATE" else "UP")
    world = World(LeavesOff(there, hosts={"cmp1": DOWN}))
    world.target = changed(world.target, spec={"image": "new"})
    return world


STEPS: dict[str, tuple[Step, Step, str]] = {
    "REBUILD": (rebuild.submit, rebuild.poll, "rebuild"),
    "EVACUATE": (evacuate.submit, evacuate.poll, "evacuate"),
    "UPDATE": (update.submit, update.poll, "rebuild"),
}


@pytest.mark.parametrize("taken_over", [False, True])
@pytest.mark.parametrize("kind", STEPS)
def test_it_is_switched_on_by_a_submit_and_never_by_a_poll(kind: str, taken_over: bool) -> None:
    submit, poll, act = STEPS[kind]
    world = world_of(kind)
    assert world.do(submit, kind).state is RUNNING
    if taken_over:
        world.taken_over()
    for _ in range(3):
        seen = world.do(poll, kind)
        assert seen.state is ABSENT, seen
        assert "to be switched on" in seen.detail
    assert "os-start" not in world.nova.asked
    assert world.do(submit, kind).state is RUNNING
    assert world.nova.asked.count("os-start") == 1
    assert world.do(poll, kind).state is DONE
    assert world.nova.asked.count(act) == 1, "what was over was not begun again"


@pytest.mark.parametrize("kind", STEPS)
def test_where_somebody_was_faster_the_next_look_says(kind: str) -> None:
    submit, poll, act = STEPS[kind]
    world = world_of(kind)
    world.do(submit, kind)
    assert isinstance(world.nova, LeavesOff)
    world.nova.busy = True
    refused = world.do(submit, kind)
    assert refused.state is RUNNING
    assert "not switched on yet" in refused.detail
    running: Server | None = world.nova.server
    assert running is not None
    world.nova.server = replace(running, status="ACTIVE", power_state=1)
    assert world.do(poll, kind).state is DONE
    assert world.nova.asked.count(act) == 1


class EndsMeanwhile(LeavesOff):
    """Shows what it rebuilt as running for a moment; it is off by the time that the act has ended."""

    def do(self, ident: str, body: Mapping[str, Any], **more: object) -> Any:
        answer = super().do(ident, body, **more)
        self._shown(on=True)
        return answer

    def act(self, ident: str, request_id: str) -> Any:
        found = super().act(ident, request_id)
        self._shown(on="os-start" in self.asked)
        return found

    def _shown(self, *, on: bool) -> None:
        assert self.server is not None
        status, power = ("ACTIVE", 1) if on else ("SHUTOFF", 4)
        self.server = replace(self.server, status=status, power_state=power)


@pytest.mark.parametrize("kind", ["REBUILD", "UPDATE"])
def test_what_was_seen_before_the_act_had_ended_says_not_how_it_was_left(kind: str) -> None:
    submit, poll, _ = STEPS[kind]
    world = world_of(kind)
    world.nova = EndsMeanwhile(world.nova.server, hosts={"cmp1": DOWN})
    world.do(submit, kind)
    seen = world.do(poll, kind)
    assert seen.state is ABSENT, seen
    assert "to be switched on" in seen.detail
    world.do(submit, kind)
    assert world.do(poll, kind).state is DONE
    assert world.nova.asked == ["rebuild", "os-start"]
