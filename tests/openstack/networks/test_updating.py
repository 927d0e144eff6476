"""A server is given other networks: Nova's and Neutron's own records say what was done, and how often."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.openstack.networks.things import ASKED_FOR, Things, addresses, disk
from tests.openstack.nova.test_updating import updated, with_new
from tests.openstack.nova.world import CALL_S, CLOCK, PATIENCE_S, World, new_id

from yaffle.model.operations import Operation, ProgressState, Target

pytestmark = ASKED_FOR
DONE, FAILED = ProgressState.DONE, ProgressState.FAILED
Networks = list[dict[str, Any]]


def changes(world: World, target: Target) -> list[str]:
    """Return what was done to its interfaces, the newest first."""
    return [act.partition("_")[0] for act in world.acts(target) if act.endswith("_interface")]


def has(things: Things, target: Target) -> dict[str, list[str]]:
    """Return its ports with their addresses, as Neutron has them."""
    return {one["id"]: addresses(one) for one in things.ports(device_id=target.physical_id)}


def test_networks_come_and_go_by_name_by_port_and_by_address(world: World, things: Things) -> None:
    async def scene() -> None:
        first, second = things.network(), things.network("second", cidr="10.8.0.0/24")
        port = things.port(first)
        old: Networks = [{"network": "private"}]
        target = await world.made(networks=old)
        (its_own,) = has(things, target)

        new: Networks = [{"network": second, "fixed_ip": "10.8.0.50"}, {"port": port}]
        done = await updated(world, target, networks=new)
        assert done.state is DONE, done.detail
        ports = has(things, target)
        assert ["10.8.0.50"] in ports.values()
        assert port in ports
        assert len(ports) == 2
        assert changes(world, target) == ["detach", "attach", "attach"]
        # What Nova had made for it is gone from Neutron.
        assert its_own not in {one["id"] for one in things.ports()}
        assert done.attributes is not None
        assert [done.attributes["node_ip"]] in ports.values()

        # Back again: the port that was made by a person is let go of, not deleted.
        target = with_new(world, target, networks=new)
        done = await updated(world, target, networks=old)
        assert done.state is DONE, done.detail
        (address,) = has(things, target).values()
        assert address[0].startswith("10.7.0.")
        left = things.port_of(port)
        assert (left["device_id"], left["binding:host_id"]) == ("", "")
        assert len(things.ports()) == 2
        assert (await world.read(target)).up is True

    asyncio.run(scene())


def test_one_that_is_refused_changes_nothing_and_leaves_nothing(
    world: World, things: Things
) -> None:
    async def scene() -> None:
        network = things.network()
        things.port(network, fixed_ips=[{"ip_address": "10.7.0.60"}])
        second = things.network("second", cidr="10.8.0.0/24")
        target = await world.made(networks=[{"network": network}])
        before = has(things, target)

        taken: Networks = [{"network": network}, {"network": network, "fixed_ip": "10.7.0.60"}]
        done = await updated(world, target, networks=taken)
        assert done.state is FAILED
        assert "10.7.0.60" in done.detail
        assert has(things, target) == before

        things.quota(port=2)
        done = await updated(world, target, networks=[{"network": second}])
        assert done.state is FAILED
        assert "Maximum number of ports exceeded" in done.detail
        assert has(things, target) == before
        assert len(things.ports()) == 2

        things.quota(port=50)
        done = await updated(world, target, networks=[{"network": second}])
        assert done.state is DONE, done.detail
        (address,) = has(things, target).values()
        assert address[0].startswith("10.8.0.")

    asyncio.run(scene())


def test_engines_that_die_after_each_change_make_each_once(world: World, things: Things) -> None:
    async def scene() -> None:
        first, second = things.network(), things.network("second", cidr="10.8.0.0/24")
        port = things.port(second)
        target, ident = await world.made(networks=[{"network": first}]), new_id()
        new = with_new(
            world, target, networks=[{"port": port}, {"network": second}], metadata={"role": "db"}
        )
        op = Operation(kind="UPDATE", target=new, params={"old": dict(target.spec)})
        until_s, submits = CLOCK.monotonic_s() + PATIENCE_S, 0
        while True:
            assert CLOCK.monotonic_s() < until_s
            # Nobody remembers anything but what the server bears.
            done = await world.profile().poll(op, operation_id=ident, deadline_s=CALL_S)
            if done.state is ProgressState.ABSENT:
                submits += 1
                done = await world.profile().submit(op, operation_id=ident, deadline_s=CALL_S)
            if done.state not in {ProgressState.RUNNING, ProgressState.ABSENT}:
                break
        assert done.state is DONE, done.detail
        assert changes(world, target) == ["detach", "attach", "attach"]
        ports = has(things, target)
        assert len(ports) == 2
        assert port in ports
        assert all(address[0].startswith("10.8.0.") for address in ports.values())

    asyncio.run(scene())


def test_a_host_that_fails_says_why_and_leaves_nothing(world: World, things: Things) -> None:
    async def scene() -> None:
        network, second = things.network(), things.network("second", cidr="10.8.0.0/24")
        target = await world.made(networks=[{"network": network}])
        before, server = has(things, target), target.physical_id
        host = world.cloud.show(server).host
        with world.cloud.lab.fail(host, "attach_interface", server):
            done = await updated(world, target, networks=[{"network": second}])
        assert done.state is FAILED
        assert has(things, target) == before
        assert len(things.ports()) == 1
        done = await updated(world, target, networks=[{"network": second}])
        assert done.state is DONE, done.detail

    asyncio.run(scene())


def test_another_flavor_takes_port_and_volume_along(world: World, things: Things) -> None:
    async def scene() -> None:
        network = things.network()
        port, data = things.port(network), things.volume()
        networks: Networks = [{"port": port}, {"network": network}]
        target = await world.made(networks=networks, block_device_mapping_v2=[disk(data)])
        before = has(things, target)
        done = await updated(world, target, flavor="lab.small")
        assert done.state is DONE, done.detail
        host = world.cloud.show(target.physical_id).host
        assert has(things, target) == before
        assert {one["binding:host_id"] for one in things.ports()} == {host}
        (attached,) = things.volume_of(data)["attachments"]
        assert (attached["server_id"], attached["host_name"]) == (target.physical_id, host)

    asyncio.run(scene())
