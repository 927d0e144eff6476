"""A server that somebody else has made is taken over with its ports and volumes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from tests.openstack.networks.test_servers import recreated
from tests.openstack.networks.things import ASKED_FOR, Things, addresses, disk
from tests.openstack.nova.world import CALL_S, World

from yaffle.model.operations import InspectionState, Target

pytestmark = ASKED_FOR


async def adopted(world: World, server: str) -> Target:
    """Take a server over, as the engine does, without a word about what it is made of."""
    found = await world.profile().inspect(server, overrides={}, snapshot=False, deadline_s=CALL_S)
    assert found.state is InspectionState.FOUND, found.detail
    assert found.properties is not None
    target = world.target()
    spec = world.profile().validate(found.properties)
    target = replace(target, physical_id=server, spec=spec, attributes=found.attributes or {})
    done = await world.profile().adopt(target, deadline_s=CALL_S)
    assert done.state is InspectionState.FOUND, done.detail
    return target


def test_what_is_made_anew_of_it_has_its_ports_and_volumes(world: World, things: Things) -> None:
    async def scene() -> None:
        network = things.network()
        port, data = things.port(network, name="mine"), things.volume()
        wanted: dict[str, Any] = {
            "networks": [{"port": port}, {"uuid": network}],
            "block_device_mapping_v2": [things.boot(), disk(data)],
        }
        server = world.cloud.server("by-hand", **wanted)
        target = await recreated(world, await adopted(world, server))
        theirs = {one["id"]: addresses(one) for one in things.ports(device_id=target.physical_id)}
        assert port in theirs, target.spec
        assert len(theirs) == 2
        assert things.users_of(data) == [target.physical_id]

    asyncio.run(scene())


def test_of_one_that_boots_from_a_volume(world: World, things: Things) -> None:
    async def scene() -> None:
        things.network()
        volume = things.volume("root", image=world.cloud.image())
        wanted: dict[str, Any] = {
            "networks": "auto", "imageRef": "", "block_device_mapping_v2": [disk(volume, boot=True)],
        }  # fmt: skip
        server = world.cloud.server("by-hand", **wanted)
        target = await recreated(world, await adopted(world, server))
        assert things.users_of(volume) == [target.physical_id]
        assert (await world.read(target)).up is True

    asyncio.run(scene())
