"""Engines that die between mark and act, or after it: whoever comes next acts once, or not at all."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from tests.openstack.nova.world import CALL_S, CLOCK, PATIENCE_S, World, new_id

from yaffle.drivers.profiles.nova_server.tracking.operation import SETTLE_S
from yaffle.drivers.profiles.nova_server.tracking.ownership_tags import Mark
from yaffle.integrations.openstack.ownership_tags import owner_marks
from yaffle.model.operations import Operation, ProgressState

ABSENT, DONE = ProgressState.ABSENT, ProgressState.DONE
FAILED, RUNNING = ProgressState.FAILED, ProgressState.RUNNING


def test_the_same_operation_acts_once_whoever_submits_it(world: World) -> None:
    async def scene() -> None:
        target = await world.made()
        ident = new_id()
        op = Operation(kind="REBOOT", target=target, params={"type": "HARD"})
        for _ in range(3):
            await world.profile().submit(op, operation_id=ident, deadline_s=CALL_S)
        done = await world.do("REBOOT", target, operation_id=ident, type="HARD")
        assert done.state is DONE, done.detail
        assert (await world.poll("REBOOT", target, ident)).state is DONE
        assert world.acts(target) == ["reboot", "create"]

    asyncio.run(scene())


def test_a_mark_without_an_act_is_waited_for_and_then_acted_on_once(world: World) -> None:
    async def scene() -> None:
        target = await world.made()
        ident = new_id()
        newest = world.cloud.lab.api.get(
            "compute", f"/servers/{target.physical_id}/os-instance-actions"
        )["instanceActions"][0]["request_id"]
        now_us = CLOCK.now_us()
        late = Mark(
            operation_id=str(ident),
            kind="REBOOT",
            at_us=now_us - int(SETTLE_S * 1_000_000),
            before=str(newest),
        )
        # A mark that does not grow old while this machine is busy with something else.
        world.mark(target, replace(late, at_us=now_us + int(PATIENCE_S * 1_000_000)).written())
        waiting = await world.poll("REBOOT", target, ident)
        assert waiting.state is RUNNING, waiting.detail
        world.mark(target, late.written())
        assert (await world.poll("REBOOT", target, ident)).state is ABSENT
        done = await world.do("REBOOT", target, operation_id=ident, type="HARD")
        assert done.state is DONE, done.detail
        assert world.acts(target) == ["reboot", "create"]

    asyncio.run(scene())


def test_a_reboot_of_the_past_is_not_taken_for_the_one_that_was_marked(world: World) -> None:
    async def scene() -> None:
        target = await world.made()
        first, second = new_id(), new_id()
        await world.do("REBOOT", target, operation_id=first, type="HARD")
        done = await world.do("REBOOT", target, operation_id=second, type="HARD")
        assert done.state is DONE
        assert world.acts(target) == ["reboot", "reboot", "create"]
        # The mark of the second has replaced that of the first.
        assert (await world.poll("REBOOT", target, first)).state is ABSENT

    asyncio.run(scene())


def test_a_successor_finds_the_server_that_a_dead_engine_asked_for(world: World) -> None:
    async def scene() -> None:
        target, ident = world.target(), new_id()
        op = Operation(kind="CREATE", target=target)
        dead = world.profile()
        first = await dead.submit(op, operation_id=ident, deadline_s=CALL_S)
        assert first.state is RUNNING
        done = await world.do("CREATE", target, operation_id=ident)
        assert done.state is DONE, done.detail
        assert first.physical_id in (None, done.physical_id)
        assert len(world.cloud.lab.servers_of(world.cloud.credentials.project_id)) == 1

    asyncio.run(scene())


def test_a_request_that_made_two_servers_leaves_one(world: World) -> None:
    async def scene() -> None:
        target, ident = world.target(), new_id()
        mark = Mark(operation_id=str(ident), kind="CREATE", at_us=CLOCK.now_us())
        metadata = {**owner_marks(target), **mark.written()}
        older = world.cloud.server("twin", metadata=metadata)
        # Nova counts a server's age in whole seconds.
        await CLOCK.sleep(1.1)
        world.cloud.server("twin", metadata=metadata)
        done = await world.do("CREATE", target, operation_id=ident)
        assert (done.state, done.physical_id) == (DONE, older)
        until_s = CLOCK.monotonic_s() + PATIENCE_S
        project = world.cloud.credentials.project_id
        while world.cloud.lab.servers_of(project) != [older]:
            assert CLOCK.monotonic_s() < until_s, "the twin is still there"
            await CLOCK.sleep(0.3)

    asyncio.run(scene())


def test_another_nodes_server_is_left_alone(world: World) -> None:
    async def scene() -> None:
        theirs = await world.made()
        mine = replace(world.target(), physical_id=theirs.physical_id)
        for kind in ("DELETE", "KILL", "REBOOT", "REBUILD", "UPDATE"):
            done = await world.do(kind, mine)
            assert done.state is FAILED, kind
            assert f"copy of node {theirs.node_id}" in done.detail
        assert (await world.read(mine)).up is None
        assert (await world.read(theirs)).up is True

    asyncio.run(scene())


def test_a_node_of_another_project_is_neither_judged_nor_touched(world: World) -> None:
    async def scene() -> None:
        elsewhere = replace(
            world.target(),
            physical_id="01c3e056-5dd3-4277-8976-32b076612bcb",
            attributes={"project_id": "0123456789abcdef0123456789abcdef"},
        )
        seen = await world.read(elsewhere)
        assert seen.up is None
        assert "lives in project" in seen.detail
        done = await world.do("DELETE", elsewhere)
        assert done.state is FAILED
        assert "lives in project" in done.detail

    asyncio.run(scene())
