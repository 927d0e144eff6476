"""Ports and volumes of servers whose host is lost, or whose Cinder was away when they were deleted."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from tests.openstack.networks.test_servers import recreated
from tests.openstack.networks.things import ASKED_FOR, Things, addresses, disk
from tests.openstack.nova.world import World

from yaffle.model.operations import ProgressState, Target

pytestmark = ASKED_FOR
DONE, FAILED = ProgressState.DONE, ProgressState.FAILED


async def made_with_all(world: World, things: Things) -> tuple[Target, str, str]:
    """Build a server with a port of a person's, one of Nova's, and a volume."""
    network = things.network()
    port, data = things.port(network, name="mine"), things.volume()
    networks: list[dict[str, Any]] = [{"port": port}, {"network": network}]
    target = await world.made(networks=networks, block_device_mapping_v2=[disk(data)])
    return target, port, data


def test_moved_off_a_dead_host_with_port_and_volume(broken_admin_world: World) -> None:
    world, things = broken_admin_world, Things(cloud=broken_admin_world.cloud)
    lab = world.cloud.lab

    async def scene() -> None:
        target, port, data = await made_with_all(world, things)
        before = {one["id"]: addresses(one) for one in things.ports()}
        source = world.cloud.show(target.physical_id).host
        lab.kill_host(source)
        lab.until_host(source, "down")
        done = await world.do("EVACUATE", target)
        assert done.state is DONE, done.detail
        there = world.cloud.show(target.physical_id)
        assert (there.status, there.host != source) == ("ACTIVE", True)
        after = {one["id"]: addresses(one) for one in things.ports()}
        assert after == before
        for one in things.ports():
            assert (one["binding:host_id"], one["status"]) == (there.host, "ACTIVE")
        assert things.users_of(data) == [target.physical_id]
        (attached,) = things.volume_of(data)["attachments"]
        assert attached["host_name"] == there.host
        assert (await world.read(target)).up is True
        # And from there anew, with the same port and volume.
        new = await recreated(world, target)
        assert things.port_of(port)["device_id"] == new.physical_id
        assert things.users_of(data) == [new.physical_id]

    asyncio.run(scene())


def test_deleted_on_a_host_that_is_forced_down_and_made_anew_elsewhere(
    broken_admin_world: World,
) -> None:
    world, things = broken_admin_world, Things(cloud=broken_admin_world.cloud)
    lab = world.cloud.lab

    async def scene() -> None:
        target, port, data = await made_with_all(world, things)
        source = world.cloud.show(target.physical_id).host
        lab.kill_host(source)
        lab.until_host(source, "down")
        refused = await world.do("KILL", target)
        assert refused.state is FAILED, "its guest may run on"
        assert things.users_of(data) == [target.physical_id]
        found = lab.api.get("compute", f"/os-services?host={source}&binary=nova-compute")
        path = f"/os-services/{found['services'][0]['id']}"
        lab.api.call("PUT", "compute", path, {"forced_down": True})
        new = await recreated(world, target)
        assert world.cloud.show(new.physical_id).host != source
        assert things.port_of(port)["device_id"] == new.physical_id
        assert things.users_of(data) == [new.physical_id]
        assert {one["device_id"] for one in things.ports()} == {new.physical_id}
        assert len(things.ports()) == 2

    asyncio.run(scene())


def test_a_volume_that_cinder_has_not_let_go_of_is_named_until_somebody_frees_it(
    broken_admin_world: World,
) -> None:
    world, things = broken_admin_world, Things(cloud=broken_admin_world.cloud)
    lab = world.cloud.lab

    async def scene() -> None:
        target, port, data = await made_with_all(world, things)
        lab.stop("cinder")
        try:
            ended = await world.do("KILL", target)
        finally:
            lab.start("cinder")
        assert ended.state is DONE, ended.detail
        # Nova has forgotten the server, and has told Cinder nothing.
        assert things.volume_of(data)["status"] == "in-use"
        refused = await world.do("CREATE", target)
        assert refused.state is FAILED
        (attached,) = things.volume_of(data)["attachments"]
        helps = f"openstack volume attachment delete {attached['attachment_id']}"
        assert f"volume {data} is attached to {target.physical_id}" in refused.detail
        assert helps in refused.detail
        world.cloud.api.call("DELETE", "volume", f"/attachments/{attached['attachment_id']}")
        done = await world.do("CREATE", replace(target, physical_id=""))
        assert done.state is DONE, done.detail
        assert things.port_of(port)["device_id"] == done.physical_id

    asyncio.run(scene())
