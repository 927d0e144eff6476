"""The profile keeps every promise of its port, asked of a real Nova."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.given import given_clock
from tests.openstack.nova.world import PATIENCE_S, SPEC, World

from yaffle.testing.checks.abilities import check_adopting, check_update
from yaffle.testing.checks.profile import check_profile


def test_every_promise_also_while_nova_hangs(broken_world: World) -> None:
    @asynccontextmanager
    async def hang() -> AsyncIterator[None]:
        with broken_world.cloud.lab.frozen("nova-api"):
            yield

    make = broken_world.profile
    with given_clock() as clock:
        check = check_profile(make, SPEC, clock=clock, hang=hang, patience_s=PATIENCE_S)
        asyncio.run(check)


def test_updates_keep_the_server(world: World) -> None:
    async def scene() -> None:
        target = await world.made()
        named = {**SPEC, "name": "another", "metadata": {"role": "web"}}
        await check_update(world.profile, target, named, clock=clock)
        server = world.cloud.show(target.physical_id)
        assert server.metadata["role"] == "web"
        assert server.metadata["cluster_node_id"] == target.node_id
        await check_update(world.profile, target, {**SPEC, "image": "lab-image-2"}, clock=clock)
        assert world.acts(target)[0] == "rebuild"

    with given_clock() as clock:
        asyncio.run(scene())


def test_a_server_that_somebody_else_made_is_adopted(world: World) -> None:
    stray = world.cloud.server("stray", metadata={"role": "db"})
    make, one, two = world.profile, world.target(), world.target()
    with given_clock() as clock:
        asyncio.run(check_adopting(make, stray, one, two, clock=clock))
