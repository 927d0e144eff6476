"""Every operation, as Nova carries it out: to its end, once, and with a true reason when it fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

import pytest
from tests.openstack.nova.world import CALL_S, PATIENCE_S, World, new_id
from tests.waiting import wait_until

from yaffle.drivers.profiles.nova_server.tracking.verbs import IMAGED
from yaffle.model.operations import Operation, ProgressState

DONE, FAILED, ABSENT = ProgressState.DONE, ProgressState.FAILED, ProgressState.ABSENT

WALK: tuple[tuple[str, Mapping[str, object], str], ...] = (
    ("REBOOT", {"type": "SOFT"}, "ACTIVE"),
    ("REBOOT", {"type": "HARD"}, "ACTIVE"),
    ("STOP", {}, "SHUTOFF"),
    ("REBOOT", {"type": "HARD"}, "ACTIVE"),
    ("STOP", {}, "SHUTOFF"),
    ("START", {}, "ACTIVE"),
    ("PAUSE", {}, "PAUSED"),
    ("UNPAUSE", {}, "ACTIVE"),
    ("SUSPEND", {}, "SUSPENDED"),
    ("RESUME", {}, "ACTIVE"),
    ("LOCK", {}, "ACTIVE"),
    ("UNLOCK", {}, "ACTIVE"),
    ("RESCUE", {}, "RESCUE"),
    ("UNRESCUE", {}, "ACTIVE"),
    ("CHANGE_PASSWORD", {"admin_pass": "n3w"}, "ACTIVE"),
    ("REBUILD", {}, "ACTIVE"),
    ("STOP", {}, "SHUTOFF"),
    ("REBUILD", {"image": "lab-image-2"}, "ACTIVE"),
)


def test_every_verb_leads_to_its_goal(world: World) -> None:
    async def scene() -> None:
        target = await world.made()
        for kind, params, status in WALK:
            done = await world.do(kind, target, **params)
            assert done.state is DONE, f"{kind}: {done.detail}"
            assert (await world.read(target)).backend_status == status, kind
        again = await world.do("START", target)
        assert "nothing to do" in again.detail
        gone = await world.do("DELETE", target)
        assert gone.state is DONE
        assert "compute_terminate_instance succeeded" in gone.detail

    asyncio.run(scene())


def test_a_server_is_made_as_its_profile_says(world: World) -> None:
    async def scene() -> None:
        target = await world.made(
            name="web", metadata={"role": "web"}, user_data="#!/bin/sh\n", config_drive=True
        )
        facts = await world.profile().describe(target, deadline_s=CALL_S)
        assert facts["name"] == "web"
        metadata = facts["metadata"]
        assert isinstance(metadata, dict)
        assert metadata["role"] == "web"
        assert metadata["cluster_node_id"] == target.node_id
        assert metadata["cluster_id"] == "c-1"
        assert metadata["cluster_node_index"] == "1"
        assert target.attributes["project_id"] == world.cloud.credentials.project_id
        evidence = await world.profile().capture(target, deadline_s=CALL_S)
        assert "console:" in evidence
        assert "create" in evidence

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        pytest.param({"flavor": "no-such"}, "no flavor 'no-such'", id="flavor"),
        pytest.param({"image": "no-such"}, "no image 'no-such'", id="image"),
        pytest.param({"image": "01c3e056-5dd3-4277-8976-32b076612bcb"}, "image", id="image gone"),
        pytest.param({"key_name": "no-such"}, "key", id="key pair"),
        pytest.param({"availability_zone": "no-such"}, "zone", id="zone"),
    ],
)
def test_what_cannot_be_made_says_why(world: World, spec: dict[str, object], reason: str) -> None:
    done = asyncio.run(world.do("CREATE", world.target(**spec)))
    assert done.state is FAILED
    assert reason in done.detail.lower()


def test_a_quota_ends_in_a_true_reason(world: World) -> None:
    project = world.cloud.credentials.project_id
    quota = {"quota_set": {"instances": 0}}
    world.cloud.lab.api.call("PUT", "compute", f"/os-quota-sets/{project}", quota)
    done = asyncio.run(world.do("CREATE", world.target()))
    assert done.state is FAILED
    assert "quota" in done.detail.lower()


def test_a_build_that_fails_says_why_and_can_be_deleted(world: World) -> None:
    lab, project = world.cloud.lab, world.cloud.credentials.project_id

    async def scene() -> None:
        target = world.target()
        with lab.fail("cmp1", "spawn", project), lab.fail("cmp2", "spawn", project):
            done = await world.do("CREATE", target)
        assert done.state is FAILED
        assert "No valid host" in done.detail or "Exceeded" in done.detail
        assert done.physical_id
        gone = await world.do("DELETE", target)
        assert gone.state is DONE, gone.detail

    asyncio.run(scene())


def test_what_a_host_could_not_do_is_failed(world: World) -> None:
    lab = world.cloud.lab

    async def scene() -> None:
        target = await world.made()
        server = target.physical_id
        host = world.cloud.show(server).host
        with lab.fail(host, "power_off", server):
            stopped = await world.do("STOP", target)
            assert stopped.state is FAILED, stopped.detail
            assert "stop failed" in stopped.detail
        world.cloud.guest(server).off()
        await world.until(target, "SHUTOFF")
        # Of one that runs on in spite of it, Nova records that a failed reboot succeeded.
        with lab.fail(host, "reboot", server):
            rebooted = await world.do("REBOOT", target, type="HARD")
            assert rebooted.state is FAILED, rebooted.detail
        assert (await world.read(target)).backend_status == "ERROR"
        # A server in ERROR cannot be marked; it can be rebooted, and rebuilt.
        mended = await world.do("REBOOT", target, type="HARD")
        assert mended.state is DONE, mended.detail
        assert (await world.read(target)).up is True

    asyncio.run(scene())


def test_a_snapshot_is_taken_once_found_by_a_successor_and_booted(world: World) -> None:
    async def scene() -> None:
        target, ident = await world.made(), new_id()
        # What failed may well be off; it has a disk all the same.
        await world.do("STOP", target)
        done = await world.do("SNAPSHOT", target, operation_id=ident)
        assert done.state is DONE, done.detail
        assert done.attributes is not None
        image = done.attributes["snapshot"]
        again = await world.poll("SNAPSHOT", target, ident)
        assert again.state is DONE
        assert again.attributes is not None
        assert again.attributes["snapshot"] == image
        assert (await world.poll("SNAPSHOT", target, new_id())).state is ABSENT
        other = world.target()
        made = await world.do("CREATE", other, image=image)
        assert made.state is DONE, made.detail
        assert made.attributes is not None
        assert made.attributes["image"] == image
        rebuilt = await world.do("REBUILD", target, image=image)
        assert rebuilt.state is DONE, rebuilt.detail
        host = world.cloud.show(target.physical_id).host
        with world.cloud.lab.fail(host, "snapshot", target.physical_id):
            lost = await world.do("SNAPSHOT", target)
        assert lost.state is FAILED
        assert "Nova has given it up" in lost.detail

    asyncio.run(scene())


def test_one_that_is_late_is_given_up_and_holds_no_rebuild(world: World) -> None:
    lab = world.cloud.lab

    async def scene() -> None:
        target, ident, driver = await world.made(), new_id(), world.profile()
        server = target.physical_id
        host = world.cloud.show(server).host
        op = Operation(kind="SNAPSHOT", target=target, params={"purpose": "recovery"})
        rebuild = Operation(kind="REBUILD", target=target)
        with lab.slow(host, "snapshot", 20, server):
            await driver.submit(op, operation_id=ident, deadline_s=CALL_S)
            said = await driver.poll(op, operation_id=ident, deadline_s=CALL_S)
            assert said.state is ProgressState.RUNNING, said.detail
            early = await driver.submit(rebuild, operation_id=new_id(), deadline_s=CALL_S)
            assert "something else is being done" in early.detail
            done = await world.do("DISCARD", target, operation_id=ident)
        assert done.state is DONE, done.detail
        query = f"/images?yaffle_operation={ident}"
        assert not world.cloud.lab.api.get("image", query)["images"]
        rebuilt = await world.do("REBUILD", target)
        assert rebuilt.state is DONE, rebuilt.detail
        assert (await world.read(target)).up is True

    asyncio.run(scene())


def test_the_oldest_images_of_recoveries_are_deleted_and_no_other(world: World) -> None:
    def sweep(*, every: bool) -> dict[str, object]:
        return {"every": every, "spared": []}

    async def scene() -> None:
        target, other = await world.made(), await world.made()
        api, taken = world.cloud.lab.api, []

        def listed() -> dict[str, str]:
            found = api.get(
                "image", f"/images?limit=200&owner={world.cloud.credentials.project_id}"
            )
            return {image["id"]: image["name"] for image in found["images"]}

        before = set(listed())

        def there() -> dict[str, str]:
            """Return what there is that was not before, from whichever test."""
            return {ident: name for ident, name in listed().items() if ident not in before}

        for _ in range(4):
            # Glance tells their order by the second.
            second = int(time.time())
            wait_until(lambda: int(time.time()), lambda now, had=second: now != had)
            done = await world.do("SNAPSHOT", target, purpose="recovery")
            assert done.attributes is not None, done.detail
            taken.append(str(done.attributes["snapshot"]))
        asked = await world.do("SNAPSHOT", target)
        assert asked.attributes is not None
        # A server that was built from the oldest one, and what a person takes of that.
        rebuilt = await world.do("REBUILD", other, image=taken[0])
        assert rebuilt.state is DONE, rebuilt.detail
        world.cloud.act(other.physical_id, "createImage", name="by hand")

        await world.until(other, "ACTIVE")
        (by_hand,) = [ident for ident, name in there().items() if name == "by hand"]
        inherited = api.get("image", f"/images/{by_hand}")
        assert inherited["cluster_node_id"] == target.node_id, "it bears the marks of the first"
        bounded = await world.do("DISCARD", target, **sweep(every=False))
        assert bounded.state is DONE
        others = {by_hand, str(asked.attributes["snapshot"])}
        assert set(there()) == {taken[0], *taken[2:]} | others, "one is in use"
        assert f"server {other.physical_id} was built from it" in bounded.detail
        await world.do("DELETE", target)
        gone = await world.do("DISCARD", target, **sweep(every=True))
        assert gone.state is FAILED, "what is in use is looked at again"
        assert set(there()) == {taken[0]} | others
        await world.do("DELETE", other)
        assert (await world.do("DISCARD", target, **sweep(every=True))).state is DONE
        assert set(there()) == others

    asyncio.run(scene())


@pytest.mark.parametrize("word", ["ERROR", "PAUSED", "SUSPENDED", "SHUTOFF", "RESCUE"])
def test_of_which_servers_nova_takes_an_image(world: World, word: str) -> None:
    acts = {"PAUSED": "PAUSE", "SUSPENDED": "SUSPEND", "SHUTOFF": "STOP", "RESCUE": "RESCUE"}

    async def scene() -> None:
        target = await world.made()
        if word == "ERROR":
            path = f"/servers/{target.physical_id}/action"
            state = {"os-resetState": {"state": "error"}}
            world.cloud.lab.api.call("POST", "compute", path, state)
        else:
            assert (await world.do(acts[word], target)).state is DONE
        await world.until(target, word)
        done = await world.do("SNAPSHOT", target)
        assert (done.state is DONE) is (word in IMAGED), done.detail
        if word not in IMAGED:
            assert f"takes no image of a server in {word}" in done.detail
            assert "409" in done.detail

    asyncio.run(scene())


def test_a_server_that_its_owner_locked_says_so(world: World) -> None:
    async def scene() -> None:
        target = await world.made()
        path = f"/servers/{target.physical_id}/action"
        world.cloud.lab.api.call("POST", "compute", path, {"lock": None})
        done = await world.do("REBOOT", target, type="HARD")
        assert done.state is FAILED
        assert "locked" in done.detail

    asyncio.run(scene())


def test_what_is_busy_is_asked_again_until_it_is_not(world: World) -> None:
    lab = world.cloud.lab

    async def scene() -> None:
        target = await world.made()
        server = target.physical_id
        profile, ident = world.profile(), new_id()
        with lab.slow(world.cloud.show(server).host, "power_off", PATIENCE_S, server):
            world.cloud.act(server, "os-stop")
            for kind, name in (("PAUSE", new_id()), ("START", ident)):
                op = Operation(kind=kind, target=target)
                said = await profile.submit(op, operation_id=name, deadline_s=CALL_S)
                assert said.state is ProgressState.RUNNING
                assert "something else is being done" in said.detail
        done = await world.do("START", target, profile=profile, operation_id=ident)
        assert done.state is DONE, done.detail
        assert (await world.read(target)).up is True

    asyncio.run(scene())
