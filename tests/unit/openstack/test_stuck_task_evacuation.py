"""A task over which a host has died is forgotten so that its server can be moved off, and no other."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.openstack.standing import Nova, World, of

from yaffle.drivers.profiles.nova_server.operations import evacuate
from yaffle.integrations.openstack.servers.documents import Action, Service
from yaffle.model.operations import ProgressState

ABSENT, DONE, FAILED = ProgressState.ABSENT, ProgressState.DONE, ProgressState.FAILED
RUNNING = ProgressState.RUNNING


def on_dead_host(task: str, status: str = "ACTIVE", last: str | None = "reboot") -> World:
    server = replace(of(task, status), host="cmp1", host_status="DOWN")
    acts = None if last is None else [Action(action=last, request_id="r", events=[])]
    service = Service(id="1", host="cmp1", state="down", status="enabled")
    return World(Nova(server, record=acts, hosts={"cmp1": service}))


@pytest.mark.parametrize(
    ("task", "status"),
    [("rebooting_hard", "HARD_REBOOT"), ("powering-off", "ACTIVE"), ("rebuilding", "REBUILD")],
)
def test_what_a_host_died_over_is_forgotten_so_that_the_server_moves(
    task: str, status: str
) -> None:
    world = on_dead_host(task, status)
    assert world.do(evacuate.submit, "EVACUATE").state is RUNNING
    assert world.nova.asked == ["force down", "reset active"]
    assert world.do(evacuate.poll, "EVACUATE").state is ABSENT
    assert "accepted" in world.do(evacuate.submit, "EVACUATE").detail
    assert world.nova.asked[2:] == ["mark", "evacuate"]


@pytest.mark.parametrize(
    ("world", "state"),
    [
        pytest.param(on_dead_host("migrating", "MIGRATING"), RUNNING, id="it runs elsewhere"),
        pytest.param(on_dead_host("rebuilding", last="evacuate"), RUNNING, id="it is being moved"),
        pytest.param(on_dead_host("resize_finish", last="resize"), RUNNING, id="resized elsewhere"),
        pytest.param(on_dead_host("rebooting", last=None), RUNNING, id="Nova does not tell"),
        pytest.param(on_dead_host("spawning", "BUILD", last="create"), RUNNING, id="being built"),
        pytest.param(on_dead_host("deleting", last="delete"), FAILED, id="it is to be deleted"),
        pytest.param(on_dead_host("shelving_offloading", "SHELVED"), FAILED, id="put away"),
    ],
)
def test_what_may_go_on_without_its_host_is_left_alone(world: World, state: ProgressState) -> None:
    assert world.do(evacuate.submit, "EVACUATE").state is state
    assert world.nova.asked == ["force down"]


def test_nothing_is_forgotten_for_a_move_while_nova_hears_from_the_host() -> None:
    world = on_dead_host("rebooting")
    world.nova.hosts = {"cmp1": Service(id="1", host="cmp1", state="up", status="enabled")}
    assert world.do(evacuate.submit, "EVACUATE").state is FAILED
    assert world.nova.asked == []
