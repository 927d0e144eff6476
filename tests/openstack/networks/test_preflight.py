"""What is foreseen of networks, ports, addresses and volumes is what the cloud then says."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.openstack.networks.things import ASKED_FOR, Things, disk, root
from tests.openstack.nova.world import CALL_S, World

from yaffle.model.operations import Operation, Outlook, ProgressState, Prospect, Target

pytestmark = ASKED_FOR
NOBODYS = "01c3e056-5dd3-4277-8976-32b076612bcb"


async def foreseen(world: World, target: Target, **spec: object) -> Prospect:
    new = replace(target, spec=world.profile().validate({**target.spec, **spec}))
    op = Operation(kind="CREATE", target=new, params={})
    return await world.profile().foresee(op, deadline_s=CALL_S)


async def both(world: World, there: Target, spec: Mapping[str, Any], why: str) -> None:
    """See it foreseen, and see the cloud refuse a new server that is made of it."""
    said = await foreseen(world, there, **spec)
    assert said.outlook is Outlook.IMPOSSIBLE, spec
    assert why in said.detail
    refused = await world.do("CREATE", new := world.target(**{**there.spec, **spec}))
    assert refused.state is ProgressState.FAILED, refused.detail
    if refused.physical_id:
        ended = await world.do("KILL", replace(new, physical_id=refused.physical_id))
        assert ended.state is ProgressState.DONE, ended.detail


def test_what_the_old_server_has_of_ports_and_volumes_is_room_for_the_new_one(
    world: World, things: Things
) -> None:
    async def scene() -> None:
        network = things.network()
        there = await world.made(
            networks=[{"network": network}], block_device_mapping_v2=[root(world.cloud.image())]
        )
        used = len(things.ports())
        things.quota(port=used)
        things.room(volumes=len(things.volumes()))
        assert (await foreseen(world, there)).outlook is Outlook.POSSIBLE
        two = await foreseen(world, there, networks=[{"network": network}] * 2)
        assert "Quota exceeded for ports: 2 wanted" in two.detail
        assert (await world.do("DELETE", there)).state is ProgressState.DONE
        assert (await world.do("CREATE", there)).state is ProgressState.DONE, "as was foreseen"

    asyncio.run(scene())


def test_what_is_gone_or_somebody_elses_is_foreseen_and_refused(
    world: World, things: Things
) -> None:
    async def scene() -> None:
        network = things.network()
        port, data = things.port(network), things.volume()
        local = things.boot()
        theirs = await world.made(
            networks=[{"port": port}, {"network": network, "fixed_ip": "10.7.0.50"}],
            block_device_mapping_v2=[local, disk(data)],
        )
        # It itself can have again what it has.
        assert (await foreseen(world, theirs)).outlook is Outlook.POSSIBLE
        there = await world.made(networks=[{"network": network}])
        assert (await foreseen(world, there)).outlook is Outlook.POSSIBLE
        other = theirs.physical_id
        broken = things.volume("broken")
        things.reset(broken, "error")
        cases: tuple[tuple[dict[str, Any], str], ...] = (
            ({"networks": [{"network": "gone"}]}, "there is no network 'gone'"),
            ({"networks": [{"network": NOBODYS}]}, f"there is no network '{NOBODYS}'"),
            ({"networks": [{"port": NOBODYS}]}, f"port {NOBODYS} is gone"),
            ({"networks": [{"port": port}]}, f"port {port} is in use by {other}"),
            (
                {"networks": [{"network": network, "fixed_ip": "10.7.0.50"}]},
                "address 10.7.0.50 is in use by port",
            ),
            ({"block_device_mapping_v2": [local, disk(NOBODYS)]}, f"volume {NOBODYS} is gone"),
            (
                {"block_device_mapping_v2": [local, disk(data)]},
                f"volume {data} is in use by {other}",
            ),
            ({"block_device_mapping_v2": [local, disk(broken)]}, f"volume {broken} is error"),
        )
        for spec, why in cases:
            await both(world, there, spec, why)
        things.network("second", cidr="10.8.0.0/24")
        await both(world, there, {"networks": "auto"}, 'which of 2 networks "auto" means')
        assert (await world.read(there)).up is True
        # Nothing of all that was refused is left anywhere.
        assert {one["device_id"] for one in things.ports()} == {there.physical_id, other}
        assert things.users_of(data) == [other]

    asyncio.run(scene())


def test_a_volume_that_its_own_server_has_lost_to_an_error(world: World, things: Things) -> None:
    async def scene() -> None:
        data = things.volume()
        there = await world.made(block_device_mapping_v2=[things.boot(), disk(data)])
        things.reset(data, "error")
        said = await foreseen(world, there)
        assert said.outlook is Outlook.IMPOSSIBLE
        assert f"volume {data} is error: have it mended" in said.detail
        things.reset(data, "in-use")
        assert (await foreseen(world, there)).outlook is Outlook.POSSIBLE

    asyncio.run(scene())
