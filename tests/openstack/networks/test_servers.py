"""A server's ports and volumes through all that is done to it, by Neutron's and Cinder's own records."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from lab.openstack import cinder
from tests.openstack.cloud import Cloud
from tests.openstack.networks.things import ASKED_FOR, Things, addresses, disk, root
from tests.openstack.nova.world import PATIENCE_S, World

from yaffle.model.operations import ProgressState, Target

pytestmark = ASKED_FOR
DONE, FAILED = ProgressState.DONE, ProgressState.FAILED
SLOW_S = 10.0


async def recreated(world: World, target: Target) -> Target:
    """Kill it and make it anew, as the engine does."""
    ended = await world.do("KILL", target)
    assert ended.state is DONE, ended.detail
    made = await world.do("CREATE", target)
    assert made.state is DONE, made.detail
    assert made.physical_id not in (None, target.physical_id)
    return replace(target, physical_id=made.physical_id or "", attributes=made.attributes or {})


def test_networks_in_all_their_words(world: World, things: Things) -> None:
    async def scene() -> None:
        network = things.network()
        port = things.port(network, fixed_ips=[{"ip_address": "10.7.0.99"}])
        # One network: "auto" means it.
        auto = await world.made(networks="auto")
        (its,) = things.ports(device_id=auto.physical_id)
        assert auto.attributes["node_ip"] == addresses(its)[0]
        assert its["status"] == "ACTIVE"
        wanted = [
            {"network": "private", "fixed_ip": "10.7.0.50"},
            {"port": port},
            {"network": network},
        ]
        made = await world.made(networks=wanted)
        theirs = things.ports(device_id=made.physical_id)
        found = sorted(address for one in theirs for address in addresses(one))
        assert {"10.7.0.50", "10.7.0.99"} < set(found)
        assert len(found) == 3
        assert made.attributes["node_ip"] in found
        assert port in {one["id"] for one in theirs}
        for target in (auto, made):
            assert (await world.do("DELETE", target)).state is DONE
        # Those that Nova has made are gone, the other is nobody's again.
        (left,) = things.ports()
        assert (left["id"], left["device_id"], left["binding:host_id"]) == (port, "", "")

    asyncio.run(scene())


def test_made_anew_with_the_same_port_address_and_volume(world: World, things: Things) -> None:
    async def scene() -> None:
        network = things.network()
        port, data = things.port(network), things.volume()
        before = things.port_of(port)
        networks = [
            {"port": port},
            {"network": "private", "fixed_ip": "10.7.0.50"},
            {"network": "private"},
        ]
        devices = [root(world.cloud.image()), disk(data)]
        target = await world.made(networks=networks, image=None, block_device_mapping_v2=devices)
        for _ in range(3):
            target = await recreated(world, target)
            after = things.port_of(port)
            assert [after[k] for k in ("mac_address", "fixed_ips")] == [
                before[k] for k in ("mac_address", "fixed_ips")
            ]
            assert after["device_id"] == target.physical_id
            theirs = things.ports()
            assert {one["device_id"] for one in theirs} == {target.physical_id}
            assert len(theirs) == 3
            assert ["10.7.0.50"] in [addresses(one) for one in theirs]
            assert things.users_of(data) == [target.physical_id]
            volumes = {one["id"]: one for one in things.volumes()}
            assert len(volumes) == 2, volumes
            (boot,) = (one for ident, one in volumes.items() if ident != data)
            assert [a["server_id"] for a in boot["attachments"]] == [target.physical_id]
            assert boot["bootable"] == "true"

    asyncio.run(scene())


def test_booted_again_from_its_own_volume(world: World, things: Things) -> None:
    async def scene() -> None:
        things.network()
        volume = things.volume("root", image=world.cloud.image())
        spec: dict[str, Any] = {"image": None, "block_device_mapping_v2": [disk(volume, boot=True)]}
        target = await recreated(world, await world.made(networks="auto", **spec))
        assert things.users_of(volume) == [target.physical_id]
        assert (await world.read(target)).up is True
        (only,) = things.volumes()
        assert only["id"] == volume
        assert (await world.do("DELETE", target)).state is DONE
        assert things.volume_of(volume)["status"] == "available"

    asyncio.run(scene())


def test_rebuilt_and_rebooted_with_all_that_it_has(world: World, things: Things) -> None:
    async def scene() -> None:
        network = things.network()
        port, data = things.port(network), things.volume()
        networks = [{"port": port}, {"network": "private"}]
        target = await world.made(
            networks=networks, block_device_mapping_v2=[things.boot(), disk(data)]
        )
        ours = {one["id"] for one in things.ports()}
        for kind, params in (
            ("REBOOT", {"type": "HARD"}),
            ("REBUILD", {}),
            ("REBUILD", {"image": "lab-image-2"}),
        ):
            done = await world.do(kind, target, **params)
            assert done.state is DONE, (kind, done.detail)
            assert {one["id"] for one in things.ports(device_id=target.physical_id)} == ours
            assert {one["status"] for one in things.ports()} == {"ACTIVE"}
            assert things.users_of(data) == [target.physical_id]
            assert things.volume_of(data)["status"] == "in-use"

    asyncio.run(scene())


def test_a_volume_that_it_boots_from_is_given_another_image_in_place(
    world: World, things: Things
) -> None:
    async def scene() -> None:
        things.network()
        volume = things.volume("root", image=world.cloud.image())
        spec: dict[str, Any] = {"image": None, "block_device_mapping_v2": [disk(volume, boot=True)]}
        target = await world.made(networks="auto", **spec)
        ports = {one["id"] for one in things.ports()}
        refused = await world.do("REBUILD", target)
        assert refused.state is FAILED
        assert "boots from a volume, and no image is given" in refused.detail
        done = await world.do("REBUILD", target, image="lab-image-2")
        assert done.state is DONE, done.detail
        assert things.users_of(volume) == [target.physical_id]
        assert things.volume_of(volume)["status"] == "in-use"
        assert {one["id"] for one in things.ports(device_id=target.physical_id)} == ports
        assert (await world.read(target)).up is True

    asyncio.run(scene())


def test_a_volume_that_is_let_go_of_slowly_is_there_for_the_next_server(
    world: World, things: Things
) -> None:
    async def scene() -> None:
        network = things.network()
        port, data = things.port(network), things.volume()
        devices = [disk(data)]
        target = await world.made(networks=[{"port": port}], block_device_mapping_v2=devices)
        # Nova says that a server has ended when Cinder has let go of its volumes, not before.
        with cinder.slow(world.cloud.lab.plan, "terminate_connection", SLOW_S):
            target = await recreated(world, target)
        assert things.users_of(data) == [target.physical_id]
        assert things.port_of(port)["device_id"] == target.physical_id

    asyncio.run(scene())


def test_the_room_of_a_volume_that_is_deleted_slowly_is_there_for_the_next_try(
    world: World, things: Things
) -> None:
    async def scene() -> None:
        things.network()
        things.room(volumes=1)
        devices = [root(world.cloud.image())]
        target = await world.made(networks="auto", image=None, block_device_mapping_v2=devices)
        target = await recreated(world, target)
        (old,) = things.volumes()
        # Until the next server was refused, however slowly that is.
        with cinder.slow(world.cloud.lab.plan, "delete_volume", PATIENCE_S):
            assert (await world.do("KILL", target)).state is DONE
            refused = await world.do("CREATE", target)
        things.gone(old["id"])
        assert refused.state is FAILED
        assert "VolumeLimitExceeded" in refused.detail, refused.detail
        failed = replace(target, physical_id=refused.physical_id or "")
        target = await recreated(world, failed)
        (only,) = things.volumes()
        assert [one["server_id"] for one in only["attachments"]] == [target.physical_id]

    asyncio.run(scene())


def test_what_got_no_address_is_ended_and_made_when_there_is_one(
    world: World, things: Things
) -> None:
    async def scene() -> None:
        network = things.network(cidr="10.9.0.0/30")
        taken = [things.port(network) for _ in range(2)]
        refused = await world.do("CREATE", target := world.target(networks="auto"))
        assert refused.state is FAILED
        assert "Failed to allocate the network(s)" in refused.detail, refused.detail
        failed = replace(target, physical_id=refused.physical_id or "")
        ended = await world.do("KILL", failed)
        assert ended.state is DONE, ended.detail
        world.cloud.api.call("DELETE", "network", f"/ports/{taken.pop()}")
        made = await world.do("CREATE", failed)
        assert made.state is DONE, made.detail
        assert len(things.ports()) == 2

    asyncio.run(scene())


def test_an_administrator_means_the_network_of_the_project(
    broken_admin_world: World,
) -> None:
    world = broken_admin_world
    things = Things(cloud=world.cloud)
    other = Cloud(lab=world.cloud.lab, credentials=world.cloud.lab.project())

    async def scene() -> None:
        Things(cloud=other).network()
        ours = things.network()
        target = await world.made(networks=[{"network": "private"}])
        (port,) = things.ports(device_id=target.physical_id)
        assert port["network_id"] == ours

    try:
        asyncio.run(scene())
    finally:
        other.remove()
