"""Dead hosts: what a deletion proves there, what fencing does, and how servers are moved away."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from tests.openstack.nova.world import CALL_S, CLOCK, PATIENCE_S, World, new_id

from yaffle.drivers.fencers.compute import ComputeFencer
from yaffle.drivers.host_monitors.nova import NovaMonitor
from yaffle.drivers.profiles.nova_server.tracking.ownership_tags import Mark
from yaffle.model.operations import FenceResult, FenceVerdict, ProgressState, Target
from yaffle.ports import DriverContext, HostReport
from yaffle.testing import check_host_monitor

FENCE_S = 120.0
"""Generous, as CALL_S is."""
DONE, FAILED = ProgressState.DONE, ProgressState.FAILED
CONFIRMED, REFUSED = FenceVerdict.CONFIRMED, FenceVerdict.REFUSED


async def fence(world: World, target: Target) -> FenceResult:
    profile = world.profile()
    context = DriverContext(
        clock=CLOCK, state_dir=world.state_dir, profiles={target.profile_type: profile}
    )
    fencer = ComputeFencer(context)
    assert fencer.supports(target)
    return await fencer.fence(target, operation_id=new_id(), deadline_s=FENCE_S)


def test_a_fence_is_proved_by_what_the_host_has_done(world: World) -> None:
    async def scene() -> None:
        target = await world.made()
        host = world.cloud.show(target.physical_id).host
        done = await fence(world, target)
        assert done.verdict is CONFIRMED, done.detail
        assert done.proof is not None
        assert done.proof.method == "nova-force-delete+instance-actions"
        assert "compute_terminate_instance succeeded" in done.proof.evidence
        assert target.physical_id not in world.cloud.lab.guests_of(host)
        assert (await fence(world, target)).verdict is CONFIRMED

    asyncio.run(scene())


def test_what_nova_deletes_without_its_host_is_no_proof(broken_world: World) -> None:
    """A member is not told of hosts: only the record of the act tells that none has confirmed it."""

    async def scene() -> None:
        target = await broken_world.made()
        lab = broken_world.cloud.lab
        host = broken_world.cloud.show(target.physical_id).host
        lab.kill_host(host)
        lab.until_host(host, "down")
        done = await fence(broken_world, target)
        assert done.verdict is REFUSED, done.detail
        assert "never confirmed" in done.detail
        # Nova has forgotten it, and its guest is still there.
        assert (await broken_world.read(target)).exists is False
        assert target.physical_id in lab.guests_of(host)
        again = await broken_world.do("DELETE", target)
        assert again.state is FAILED

    asyncio.run(scene())


def test_nothing_is_deleted_on_a_lost_host_before_it_is_fenced(broken_admin_world: World) -> None:
    world = broken_admin_world

    async def scene() -> None:
        target = await world.made()
        lab = world.cloud.lab
        host = str(target.attributes["host"])
        profile = world.profile()
        assert [h.up for h in await profile.hosts([target], deadline_s=CALL_S)] == [True]
        monitor = NovaMonitor(
            DriverContext(
                clock=CLOCK,
                state_dir=world.state_dir,
                settings={"clouds_file": str(world.cloud.clouds_yaml)},
                cloud=world.cloud.name,
            )
        )
        await check_host_monitor(monitor, clock=CLOCK, up=host)
        lab.kill_host(host)
        lab.until_host(host, "down")
        opinion = await monitor.look(deadline_s=CALL_S)
        assert isinstance(opinion, HostReport)
        assert host not in {sighting.host for sighting in opinion.sightings}
        assert opinion.unknown[host] == (
            "Nova: nova-compute down, enabled, which alone is no failure"
        )
        assert len(opinion.sightings) == len(lab.hosts) - 1
        (seen,) = await profile.hosts([target], deadline_s=CALL_S)
        assert (seen.name, seen.up, seen.forced_down) == (host, False, False)
        done = await fence(world, target)
        assert done.verdict is REFUSED
        assert f"its host {host} is down" in done.detail
        assert (await world.read(target)).exists is True
        _force_down(world, host)
        several = await profile.hosts([target, target], deadline_s=CALL_S)
        assert all(host.forced_down for host in several)
        done = await fence(world, target)
        assert done.verdict is CONFIRMED, done.detail
        assert "forced down" in done.detail

    asyncio.run(scene())


def _force_down(world: World, host: str) -> None:
    api = world.cloud.lab.api
    services = api.get("compute", f"/os-services?host={host}&binary=nova-compute")["services"]
    api.call("PUT", "compute", f"/os-services/{services[0]['id']}", {"forced_down": True})


def test_a_server_is_moved_off_a_dead_host_only(broken_admin_world: World) -> None:
    world = broken_admin_world

    async def scene() -> None:
        lab = world.cloud.lab
        target = await world.made()
        host = str(target.attributes["host"])
        refused = await world.do("EVACUATE", target)
        assert refused.state is FAILED
        assert f"host {host} is up" in refused.detail
        lab.kill_host(host)
        lab.until_host(host, "down")
        moved = await world.do("EVACUATE", target)
        assert moved.state is DONE, moved.detail
        assert moved.attributes is not None
        assert moved.attributes["host"] != host
        seen = await world.read(target)
        assert (seen.up, seen.physical_id) == (True, target.physical_id)
        services = await world.profile().hosts([target], deadline_s=CALL_S)
        assert services[0].up is True
        assert _forced_down(world, host)

    asyncio.run(scene())


def _forced_down(world: World, host: str) -> bool:
    found = world.cloud.lab.api.get("compute", f"/os-services?host={host}&binary=nova-compute")
    return bool(found["services"][0]["forced_down"])


def test_what_arrives_off_is_switched_on_and_what_fails_is_tried_again(
    broken_admin_world: World,
) -> None:
    world = broken_admin_world

    async def scene() -> None:
        lab = world.cloud.lab
        target = await world.made()
        host = str(target.attributes["host"])
        (other,) = set(lab.hosts) - {host}
        await world.do("STOP", target)
        lab.kill_host(host)
        lab.until_host(host, "down")
        trouble = lab.fail(other, "spawn", target.physical_id)
        moving = asyncio.create_task(world.do("EVACUATE", target))
        until_s = CLOCK.monotonic_s() + PATIENCE_S
        while world.acts(target).count("evacuate") < 2:
            assert CLOCK.monotonic_s() < until_s, "it was not tried again"
            await CLOCK.sleep(0.2)
        trouble.end()
        done = await moving
        assert done.state is DONE, done.detail
        seen = await world.read(target)
        assert seen.up is True, seen
        assert world.cloud.show(target.physical_id).host == other

    asyncio.run(scene())


def test_what_has_left_its_host_has_been_moved_whatever_its_requests_were_told(
    admin_world: World,
) -> None:
    world = admin_world

    async def scene() -> None:
        target, ident = await world.made(), new_id()
        mark = Mark(
            operation_id=str(ident), kind="EVACUATE", at_us=CLOCK.now_us(), source="cmp-lost"
        )
        world.mark(target, mark.written())
        done = await world.do("EVACUATE", target, operation_id=ident)
        assert done.state is DONE, done.detail
        assert done.attributes is not None
        assert done.attributes["host"] == target.attributes["host"]
        assert "evacuate" not in world.acts(target)

    asyncio.run(scene())


def test_a_member_is_told_nothing_of_hosts(world: World) -> None:
    async def scene() -> None:
        target = await world.made()
        nowhere = replace(world.target(), physical_id="")
        seen = await world.profile().hosts([target, nowhere], deadline_s=CALL_S)
        assert [h.up for h in seen] == [None, None]
        assert "may not see hosts" in seen[0].detail
        done = await world.do("EVACUATE", target)
        assert done.state is FAILED
        assert "administrator" in done.detail

    asyncio.run(scene())
