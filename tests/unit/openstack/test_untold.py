"""A Nova that does not say what was done to a server: nothing is begun twice for that."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.openstack.standing import Nova, World, of

from yaffle.clouds.openstack.servers.documents import Service
from yaffle.drivers.profiles.nova_server import acting, evacuating
from yaffle.model.operations import ProgressState

DONE, FAILED, RUNNING = ProgressState.DONE, ProgressState.FAILED, ProgressState.RUNNING


@pytest.mark.parametrize("taken_over", [False, True])
def test_an_act_is_judged_by_what_the_server_is(taken_over: bool) -> None:
    world = World(Nova(of(None, "SHUTOFF", power=4), record=None))
    assert world.do(acting.submit, "START").state is RUNNING
    asked = list(world.nova.asked)
    assert world.nova.server is not None
    if taken_over:
        world.taken_over()
    world.nova.server = replace(world.nova.server, status="SHUTOFF", task_state="powering-on")
    assert world.do(acting.poll, "START").state is RUNNING
    world.nova.server = replace(world.nova.server, task_state=None, power_state=4)
    world.clock.at_s += 300
    # Whether the start has come to nothing or not begun: it is asked for once, and its time ends.
    assert world.do(acting.poll, "START").state is RUNNING
    assert world.do(acting.submit, "START").state is RUNNING
    assert world.nova.asked == asked
    world.nova.server = replace(world.nova.server, status="ACTIVE", power_state=1)
    assert world.do(acting.poll, "START").state is DONE


def test_what_is_still_where_it_was_is_not_moved_again_and_again() -> None:
    service = Service(id="1", host="cmp1", state="down", status="enabled", forced_down=True)
    there = replace(of(None), host="cmp1", host_status="DOWN")
    world = World(Nova(there, record=None, hosts={"cmp1": service}))
    assert world.do(evacuating.submit, "EVACUATE").state is RUNNING
    ended = world.do(evacuating.poll, "EVACUATE")
    assert ended.state is FAILED
    assert "it is still on cmp1, and Nova does not tell how often that was tried" in ended.detail
    assert world.nova.asked.count("evacuate") == 1
