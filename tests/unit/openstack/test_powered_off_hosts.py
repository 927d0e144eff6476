"""What a power switch's word is worth to Nova's servers: their host is dead until it reports again."""

from __future__ import annotations

from dataclasses import replace as changed

from msgspec.structs import replace
from tests.unit.openstack.standing import Nova, World, of

from yaffle.drivers.profiles.nova_server.operations import create, delete
from yaffle.drivers.profiles.nova_server.status.powered_off_hosts import QUIET_S
from yaffle.integrations.openstack.servers.documents import Action, Event, Service
from yaffle.model.operations import PoweredOff, Progress, ProgressState

DONE, FAILED, RUNNING = ProgressState.DONE, ProgressState.FAILED, ProgressState.RUNNING
OFF = PoweredOff(host="cmp1", reported="12:00")


def on_lost_host(**nova: bool) -> World:
    server = replace(of(None), host="cmp1", host_status="DOWN")
    built = Event(event="compute__do_build_and_run_instance", result="Success", host="cmp1")
    acts = [Action(action="create", request_id="r-0", events=[built])]
    service = Service(id="1", host="cmp1", state="down", status="enabled", updated_at="12:00")
    world = World(Nova(server, record=acts, hosts={"cmp1": service}, **nova))
    spec = {"flavor": "small", "networks": "none"}
    world.target = changed(world.target, spec=spec)
    return world


def reports(world: World, at: str) -> None:
    """Let the host's nova-compute be heard of."""
    assert world.nova.hosts is not None
    host = world.nova.hosts["cmp1"]
    state = host.state if host.forced_down else "up"
    world.nova.hosts = {"cmp1": replace(host, updated_at=at, state=state)}


def deleted(world: World, off: PoweredOff | None = OFF) -> Progress:
    done = world.do(delete.submit, "DELETE", off=off)
    return world.do(delete.poll, "DELETE", off=off) if done.state is RUNNING else done


def made(world: World, off: PoweredOff | None = OFF, waived: tuple[str, ...] = ()) -> Progress:
    return world.do(create.submit, "CREATE", off=off, waived=frozenset(waived))


def test_what_is_proved_off_is_forced_down_and_its_server_deleted_and_made_anew() -> None:
    world = on_lost_host()
    done = deleted(world)
    assert done.state is DONE, done
    assert "forced down" in done.detail
    assert made(world).state is RUNNING
    assert world.nova.asked == ["force down", "delete", "create"]


def test_without_that_proof_nothing_is_deleted() -> None:
    for off in (None, PoweredOff(host="cmp2", reported="12:00")):
        world = on_lost_host()
        done = deleted(world, off)
        assert done.state is FAILED
        assert "its host cmp1 is down" in done.detail
        assert "may still run" in made(world, off).detail
        assert world.nova.asked == []


def test_a_host_that_reports_again_is_not_off() -> None:
    world = on_lost_host()
    reports(world, "12:05")
    assert "is watched" in world.do(delete.submit, "DELETE", off=OFF).detail
    world.clock.at_s += 10
    reports(world, "12:15")
    done = world.do(delete.submit, "DELETE", off=OFF)
    assert done.state is FAILED
    assert "host cmp1 reports again since its power switch said off" in done.detail
    assert world.nova.asked == []


def test_what_was_stamped_once_and_says_nothing_more_is_off() -> None:
    world = on_lost_host()
    reports(world, "12:05")
    assert world.do(delete.submit, "DELETE", off=OFF).state is RUNNING
    world.clock.at_s += QUIET_S
    assert deleted(world).state is DONE


def test_a_host_that_reports_again_before_a_copy_is_made_ends_the_proof() -> None:
    world = on_lost_host()
    assert deleted(world).state is DONE
    reports(world, "12:05")
    assert made(world).state is RUNNING
    world.clock.at_s += 10
    reports(world, "12:15")
    done = made(world)
    assert done.state is FAILED
    assert "reports again" in done.detail
    assert "create" not in world.nova.asked


def test_who_takes_over_watches_before_a_copy_is_made() -> None:
    world = on_lost_host()
    assert deleted(world).state is DONE
    world.taken_over()
    assert made(world).state is RUNNING
    assert "create" not in world.nova.asked
    world.clock.at_s += QUIET_S
    assert made(world).state is RUNNING
    assert "create" in world.nova.asked


def test_what_the_host_itself_has_ended_needs_no_word_of_a_switch() -> None:
    world = on_lost_host()
    assert world.nova.record is not None
    ended = Event(event="compute_terminate_instance", result="Success", host="cmp1")
    world.nova.record.insert(0, Action(action="delete", request_id="r-1", events=[ended]))
    world.nova.server = None
    reports(world, "12:05")
    assert made(world).state is RUNNING
    assert world.nova.asked == ["create"]


def test_who_may_not_force_a_host_down_is_told_what_to_do() -> None:
    world = on_lost_host(admin=False)
    done = deleted(world)
    assert done.state is FAILED
    assert "`openstack compute service set --down cmp1 nova-compute`" in done.detail
    assert world.nova.asked == ["force down"]


def test_an_old_copy_that_nova_still_knows_on_a_host_that_is_off_is_none() -> None:
    assert made(on_lost_host()).state is RUNNING
    elsewhere = on_lost_host()
    assert elsewhere.nova.server is not None
    elsewhere.nova.server = replace(elsewhere.nova.server, host="cmp2")
    assert "may still run" in made(elsewhere).detail


def test_a_copy_is_made_beside_those_alone_that_an_operator_wants_no_proof_of() -> None:
    world = on_lost_host()
    assert "may still run" in made(world, None, ("another",)).detail
    assert world.nova.asked == []
    assert made(world, None, ("s",)).state is RUNNING
    assert world.nova.asked == ["create"]
