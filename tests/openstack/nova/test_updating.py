"""A server is given another flavor, also with more besides: asked for, and confirmed, once."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from tests.openstack.nova.world import CALL_S, CLOCK, PATIENCE_S, World, new_id

from yaffle.model.ids import OperationId
from yaffle.model.operations import Operation, Progress, ProgressState, Reading, Target

DONE, FAILED, RUNNING = ProgressState.DONE, ProgressState.FAILED, ProgressState.RUNNING
PUBLIC = "os-flavor-access:is_public"
SMALL: Mapping[str, object] = {"flavor": "lab.small"}
HELD_BY = {"RESIZE": "finish_migration", "VERIFY_RESIZE": "confirm_migration"}
"""Nova's words for a server that is resized, and what its host does meanwhile."""


def with_new(world: World, target: Target, **more: object) -> Target:
    """Return the node with another profile."""
    return replace(target, spec=world.profile().validate({**target.spec, **more}))


async def updated(
    world: World, target: Target, ident: OperationId | None = None, **more: object
) -> Progress:
    """Give it another profile, as the engine does."""
    new = with_new(world, target, **more)
    return await world.do("UPDATE", new, operation_id=ident or new_id(), old=dict(target.spec))


def flavor_of(world: World, target: Target) -> str:
    """Return the name of the server's flavor, by Nova."""
    path, version = f"/servers/{target.physical_id}", "2.73"
    with world.cloud.connected() as connection:
        headers = {"OpenStack-API-Version": f"compute {version}"}
        answer = connection.compute.get(path, headers=headers).json()
    return str(answer["server"]["flavor"]["original_name"])


@contextmanager
def immense_flavor(world: World) -> Iterator[str]:
    """Make a flavor for which no host has the room; nobody else sees it."""
    api, name = world.cloud.lab.api, f"immense-{uuid.uuid4()}"
    wanted = {"name": name, "ram": 900_000_000, "vcpus": 1, "disk": 1, PUBLIC: False}
    ident = api.call("POST", "compute", "/flavors", {"flavor": wanted})["flavor"]["id"]
    access = {"addTenantAccess": {"tenant": world.cloud.credentials.project_id}}
    api.call("POST", "compute", f"/flavors/{ident}/action", access)
    try:
        yield name
    finally:
        api.call("DELETE", "compute", f"/flavors/{ident}")


def test_another_flavor_is_asked_for_and_confirmed_and_never_looks_like_a_failure(
    world: World,
) -> None:
    async def scene() -> None:
        target = await world.made()
        server, lab, seen = target.physical_id, world.cloud.lab, list[Reading]()
        # Each of the two lasts until it has been seen, however slowly that is.
        held = {
            word: [lab.slow(host, operation, PATIENCE_S, server) for host in lab.hosts]
            for word, operation in HELD_BY.items()
        }
        going = asyncio.create_task(updated(world, target, **SMALL))
        while not going.done():
            seen.append(await world.read(target))
            for trouble in held.pop(seen[-1].backend_status, ()):
                trouble.end()
            await CLOCK.sleep(0.1)
        done = await going
        assert done.state is DONE, done.detail
        assert {s.backend_status for s in seen} >= {"RESIZE", "VERIFY_RESIZE"}
        assert not [s for s in seen if s.up is False]
        assert done.attributes is not None
        assert done.attributes["flavor"] == flavor_of(world, target) == "lab.small"
        assert world.acts(target) == ["confirmResize", "resize", "create"]
        assert (await world.read(target)).up is True

    asyncio.run(scene())


def test_engines_that_die_after_each_step_resize_once(world: World) -> None:
    async def scene() -> None:
        target, ident = await world.made(), new_id()
        await world.do("STOP", target)
        new = with_new(world, target, image="lab-image-2", name="other", **SMALL)
        op = Operation(kind="UPDATE", target=new, params={"old": dict(target.spec)})
        until_s, submits = CLOCK.monotonic_s() + PATIENCE_S, 0
        while True:
            assert CLOCK.monotonic_s() < until_s
            # Nobody remembers anything but what the server bears.
            done = await world.profile().poll(op, operation_id=ident, deadline_s=CALL_S)
            if done.state is ProgressState.ABSENT:
                submits += 1
                done = await world.profile().submit(op, operation_id=ident, deadline_s=CALL_S)
            if done.state not in {RUNNING, ProgressState.ABSENT}:
                break
        assert done.state is DONE, done.detail
        assert submits == 4  # the resize, its confirmation, the rebuild, the start after that
        acts = world.acts(target)
        assert [acts.count(act) for act in ("resize", "confirmResize", "rebuild")] == [1, 1, 1]
        assert acts.index("rebuild") < acts.index("confirmResize") < acts.index("resize")
        assert done.attributes is not None
        assert done.attributes["server_name"] == "other"
        assert done.attributes["flavor"] == "lab.small"

    asyncio.run(scene())


def test_a_flavor_that_it_has_is_not_asked_for(world: World) -> None:
    async def scene() -> None:
        target = await world.made()
        done = await updated(world, target, flavor=world.cloud.flavor("lab.tiny"))
        assert done.state is DONE, done.detail
        assert world.acts(target) == ["create"]

    asyncio.run(scene())


def test_a_resize_without_a_host_ends_as_it_began(world: World) -> None:
    async def scene() -> None:
        target, ident = await world.made(), new_id()
        with immense_flavor(world) as immense:
            done = await updated(world, target, ident, flavor=immense)
            assert done.state is FAILED
            assert "Nova has left it with the old flavor" in done.detail
            assert "conductor_migrate_server" in done.detail
            new = with_new(world, target, flavor=immense)
            op = Operation(kind="UPDATE", target=new, params={"old": dict(target.spec)})
            late = await world.profile().submit(op, operation_id=ident, deadline_s=CALL_S)
            assert late.state is FAILED
        assert world.acts(target).count("resize") == 1
        assert (await world.read(target)).up is True
        again = await updated(world, target, **SMALL)
        assert again.state is DONE, again.detail

    asyncio.run(scene())


def test_a_resize_that_a_host_fails_says_why(world: World) -> None:
    lab = world.cloud.lab

    async def scene() -> None:
        target = await world.made()
        server = target.physical_id
        host = world.cloud.show(server).host
        with lab.fail(host, "migrate_disk_and_power_off", server):
            done = await updated(world, target, **SMALL)
        assert done.state is FAILED
        assert "the lab lets migrate_disk_and_power_off fail" in done.detail
        assert "confirmResize" not in world.acts(target)
        mended = await world.do("REBOOT", target, type="HARD")
        assert mended.state is DONE, mended.detail
        source = world.cloud.show(server).host
        with lab.fail(source, "confirm_migration", server):
            unconfirmed = await updated(world, target, **SMALL)
        assert unconfirmed.state is FAILED
        assert "the lab lets confirm_migration fail" in unconfirmed.detail

    asyncio.run(scene())


def test_somebody_elses_resize_is_not_confirmed(world: World) -> None:
    async def scene() -> None:
        target = await world.made()
        server, small = target.physical_id, world.cloud.flavor("lab.small")
        body = {"resize": {"flavorRef": small}}
        world.cloud.operator.call("POST", "compute", f"/servers/{server}/action", body)
        world.cloud.until(server, "VERIFY_RESIZE")
        done = await updated(world, target, **SMALL)
        assert done.state is FAILED
        assert "this update has not asked for" in done.detail
        assert f"openstack server resize confirm|revert {server}" in done.detail
        assert world.acts(target) == ["resize", "create"]
        assert world.cloud.show(server).status == "VERIFY_RESIZE"

    asyncio.run(scene())


def test_what_was_off_stays_off_and_what_one_left_unconfirmed_only_it_confirms(
    world: World,
) -> None:
    async def scene() -> None:
        target, ident = await world.made(), new_id()
        await world.do("STOP", target)
        new = with_new(world, target, metadata={"role": "db"}, **SMALL)
        op = Operation(kind="UPDATE", target=new, params={"old": dict(target.spec)})
        await world.profile().submit(op, operation_id=ident, deadline_s=CALL_S)
        world.cloud.until(target.physical_id, "VERIFY_RESIZE")
        other = await updated(world, target, metadata={"role": "db"}, **SMALL)
        assert other.state is FAILED
        assert "this update has not asked for" in other.detail
        # A poll confirms nothing.
        found = await world.profile().poll(op, operation_id=ident, deadline_s=CALL_S)
        assert found.state is ProgressState.ABSENT
        assert world.acts(target) == ["resize", "stop", "create"]
        done = await updated(world, target, ident, metadata={"role": "db"}, **SMALL)
        assert done.state is DONE, done.detail
        assert world.acts(target) == ["confirmResize", "resize", "stop", "create"]
        assert (await world.read(target)).backend_status == "SHUTOFF"
        assert flavor_of(world, target) == "lab.small"
        assert world.cloud.show(target.physical_id).metadata["role"] == "db"

    asyncio.run(scene())


def test_a_network_that_is_not_there_changes_nothing(world: World) -> None:
    """The lab has no Neutron: what it would answer to is in `tests/unit/openstack`."""

    async def scene() -> None:
        target = await world.made()
        done = await updated(world, target, networks=[{"network": "private"}], **SMALL)
        assert done.state is FAILED
        assert "no network 'private'" in done.detail
        assert world.acts(target) == ["create"]

    asyncio.run(scene())
