"""Between two steps of Nova's: it knows that a guest is off, and has not stopped the server yet."""

from __future__ import annotations

import asyncio

from tests.openstack.nova.world import CALL_S, World, new_id

from yaffle.model.operations import Operation, ProgressState

PATIENCE_S = 600


def test_a_guest_that_is_off_is_started_as_soon_as_nova_lets_it_be(world: World) -> None:
    async def scene() -> None:
        target = await world.made()
        server = target.physical_id
        host = world.cloud.show(server).host
        driver, ident = world.profile(), new_id()
        start = Operation(kind="START", target=target)
        with world.cloud.lab.slow(host, "second_look", PATIENCE_S, server):
            going_off = asyncio.create_task(asyncio.to_thread(world.cloud.guest(server).off))
            seen = await world.until(target, "ACTIVE but off")
            assert (seen.up, seen.event) == (False, "POWER_OFF")
            early = await driver.submit(start, operation_id=ident, deadline_s=CALL_S)
        assert early.state is ProgressState.RUNNING, early
        assert "once Nova has written down that it is off" in early.detail
        await going_off
        done = await world.do("START", target, profile=driver, operation_id=ident)
        assert done.state is ProgressState.DONE, done
        assert world.cloud.show(server).status == "ACTIVE"
        assert world.acts(target) == ["start", "stop", "create"]

    asyncio.run(scene())
