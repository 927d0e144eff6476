"""How servers are, as Nova tells it: broken from outside, by users, by Nova's own absence."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from lab.openstack import Lab
from tests.openstack.cloud import Cloud
from tests.openstack.nova.world import CALL_S, World, new_id

from yaffle.model.operations import Actor, Operation, ProgressState, Reading

FORCE: dict[str, object] = {"forceDelete": None}


def test_what_becomes_of_a_guest_is_read(world: World) -> None:
    async def scene() -> None:
        target = await world.made()
        guest = world.cloud.guest(target.physical_id)
        seen = await world.read(target)
        assert (seen.up, seen.backend_status, seen.event) == (True, "ACTIVE", "")
        guest.off()
        seen = await world.until(target, "SHUTOFF")
        assert (seen.up, seen.event) == (False, "POWER_OFF")
        await world.do("START", target)
        guest.pause()
        seen = await world.until(target, "ACTIVE but paused")
        assert (seen.up, seen.event) == (False, "")
        await world.do("REBOOT", target, type="HARD")
        guest.vanish()
        seen = await world.until(target, "ACTIVE with no power")
        assert (seen.exists, seen.up) == (True, False)
        world.cloud.api.call("POST", "compute", f"/servers/{target.physical_id}/action", FORCE)
        seen = await world.until(target, "gone")
        assert (seen.exists, seen.up, seen.event) == (False, False, "DELETE")

    asyncio.run(scene())


def test_many_are_read_in_one_list_and_the_missing_are_asked_for(world: World) -> None:
    async def scene() -> None:
        profile = world.profile()
        first, second = await world.made(), await world.made()
        missing = replace(world.target(), physical_id="01c3e056-5dd3-4277-8976-32b076612bcb")
        never = world.target()
        everybody = [second, missing, first, never]

        async def read() -> dict[str, Reading]:
            seen = await profile.read(everybody, deadline_s=CALL_S)
            assert [r.physical_id for r in seen][:3] == [t.physical_id for t in everybody][:3]
            return {t.name: r for t, r in zip(everybody, seen, strict=True)}

        seen = await read()
        assert [seen[t.name].up for t in everybody] == [True, False, True, False]
        assert [seen[t.name].exists for t in everybody] == [True, False, True, False]
        world.cloud.guest(first.physical_id).off()
        await world.until(first, "SHUTOFF")
        # From here on by what has changed: the list itself is not asked for again.
        seen = await read()
        assert (seen[first.name].up, seen[second.name].up) == (False, True)
        await world.do("KILL", second)
        seen = await read()
        assert (seen[first.name].backend_status, seen[second.name].exists) == ("SHUTOFF", False)
        # The one with that mark is found, whatever copy we know of.
        lost = replace(first, physical_id="01c3e056-5dd3-4277-8976-32b076612bcb")
        found = (await profile.read([lost, never], deadline_s=CALL_S))[0]
        assert found.physical_id == first.physical_id
        # Also when it is asked for alone, as before an act: or it would stand in the way of another.
        (alone,) = await profile.read([lost], deadline_s=CALL_S)
        assert (alone.physical_id, alone.up) == (first.physical_id, False)

    asyncio.run(scene())


def test_that_a_list_lacks_a_server_is_no_proof(lab: Lab, admin_world: World) -> None:
    """An administrator's list has the servers of one project; those of others are there all the same."""

    async def scene() -> None:
        other = Cloud(lab=lab, credentials=lab.project())
        try:
            theirs = World(cloud=other, state_dir=admin_world.state_dir)
            there = replace(await theirs.made(), attributes={})
            gone = replace(theirs.target(), physical_id="01c3e056-5dd3-4277-8976-32b076612bcb")
            seen = await admin_world.profile().read([there, gone], deadline_s=CALL_S)
            assert [(r.exists, r.up) for r in seen] == [(True, True), (False, False)]
        finally:
            other.remove()

    asyncio.run(scene())


def test_a_soft_deleted_server_is_restored(world: World) -> None:
    async def scene() -> None:
        target = await world.made()
        world.cloud.api.call("DELETE", "compute", f"/servers/{target.physical_id}")
        seen = await world.until(target, "SOFT_DELETED")
        assert (seen.exists, seen.up, seen.event) == (True, False, "SOFT_DELETE")
        done = await world.do("RESTORE", target)
        assert (await world.read(target)).up is True, done.detail

    asyncio.run(scene())


@pytest.mark.parametrize("service", ["nova-api", "keystone"])
def test_a_cloud_that_is_away_is_unknown_not_down(broken_world: World, service: str) -> None:
    async def scene() -> None:
        target = await broken_world.made()
        lab = broken_world.cloud.lab
        for trouble in (lab.stopped, lab.frozen):
            with trouble(service):
                # A driver of its own, which has no token yet.
                fresh = World(cloud=broken_world.cloud, state_dir=broken_world.state_dir)
                seen = await fresh.profile().read([target, target], deadline_s=3.0)
                assert [r.up for r in seen] == [None, None], seen
                assert all(r.exists for r in seen)
                done = await fresh.profile().submit(
                    Operation(kind="REBOOT", target=target), operation_id=new_id(), deadline_s=3.0
                )
                assert done.state is ProgressState.RUNNING, done
        assert (await broken_world.until(target, "ACTIVE")).up is True
        assert broken_world.acts(target) == ["create"]

    asyncio.run(scene())


def test_who_switched_it_off_is_known(world: World) -> None:
    async def scene() -> None:
        target = await world.made()
        profile = world.profile()

        async def actor() -> Actor:
            return (await profile.cause(target, deadline_s=CALL_S)).actor

        world.cloud.guest(target.physical_id).off()
        await world.until(target, "SHUTOFF")
        assert await actor() is Actor.NOBODY
        await world.do("START", target)
        await world.do("STOP", target)
        assert await actor() is Actor.OURSELVES
        await world.do("START", target)
        path = f"/servers/{target.physical_id}/action"
        world.cloud.lab.api.call("POST", "compute", path, {"os-stop": None})
        await world.until(target, "SHUTOFF")
        assert await actor() is Actor.USER
        world.cloud.lab.api.call("POST", "compute", path, FORCE)
        await world.until(target, "gone")
        assert await actor() is Actor.USER

    asyncio.run(scene())
