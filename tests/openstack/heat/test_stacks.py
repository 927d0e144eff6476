"""The Heat profile keeps its promises, asked of a real Heat and the Nova below it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace

from lab.openstack.waiting import until
from tests.given import given_clock
from tests.openstack.heat.world import (
    CALL_S,
    CLOCK,
    PATIENCE_S,
    SERVER,
    WORD,
    World,
    group,
    new_id,
    spec,
)

from yaffle.model.operations import Operation, ProgressState
from yaffle.testing.checks.abilities import check_adopting, check_update
from yaffle.testing.checks.profile import check_profile

ABSENT, DONE = ProgressState.ABSENT, ProgressState.DONE
FAILED, RUNNING = ProgressState.FAILED, ProgressState.RUNNING


def test_every_promise_also_while_heat_hangs(broken_world: World) -> None:
    @asynccontextmanager
    async def hang() -> AsyncIterator[None]:
        with broken_world.cloud.lab.frozen("heat-api"):
            yield

    # Heat takes seconds to load what it needs for the first stack of its life.
    broken_world.stacks("", "POST", {"stack_name": "first", **spec(word=WORD)})
    make, given = broken_world.profile, spec(word=WORD)
    with given_clock() as clock:
        check = check_profile(make, given, clock=clock, hang=hang, patience_s=PATIENCE_S)
        asyncio.run(check)


def test_only_the_member_that_failed_is_replaced_and_once(world: World) -> None:
    async def scene() -> None:
        target = await world.made(spec(web=group(2), word=WORD))
        before = world.members(target)
        lost = before["web/0"][0]
        nothing = await world.do("STACK_UPDATE", target)
        assert nothing.state is FAILED
        assert "no member is known to have failed" in nothing.detail

        world.cloud.guest(lost).off()
        seen = await world.until(target, up=False)
        assert seen.backend_status == "CREATE_COMPLETE with failed members"
        assert "web/0" in seen.detail
        # A list of many says the same, and nothing of Heat's words has changed by looking.
        # While Nova itself is at the server it is unclear, so it is asked until it is not.
        another, until_s = world.target(spec(word=WORD)), CLOCK.monotonic_s() + PATIENCE_S
        while (await world.read(target, another)).up is not False:
            assert CLOCK.monotonic_s() < until_s, "one of many is not seen to be down"
            await CLOCK.sleep(0.3)
        assert world.members(target) == before

        ident = new_id()
        op = Operation(kind="STACK_UPDATE", target=target)
        # An engine that died after it had marked: its successor goes on from there.
        world.stacks(f"/{_own_stack(world, target)}/resources/0", "PATCH", {"mark_unhealthy": True})
        mine = world.cloud.credentials.project_id
        with ExitStack() as slow:
            for host in world.cloud.lab.hosts:
                slow.enter_context(world.cloud.lab.slow(host, "spawn", PATIENCE_S, mine))
            for _ in range(2):
                sent = await world.profile().submit(op, operation_id=ident, deadline_s=CALL_S)
                assert sent.state is RUNNING, sent.detail
        done = await world.do("STACK_UPDATE", target, operation_id=ident)
        assert done.state is DONE, done.detail
        after = world.members(target)
        assert after["web/0"][0] != lost
        assert after["web/1"] == before["web/1"]
        assert after["/word"] == before["/word"]
        assert (await world.profile().poll(op, operation_id=ident, deadline_s=CALL_S)).state is DONE
        other = await world.profile().poll(op, operation_id=new_id(), deadline_s=CALL_S)
        assert other.state is ABSENT
        assert (await world.read(target)).up is True

        refused = await world.do("STACK_UPDATE", target, resources=["web"])
        assert refused.state is FAILED
        assert "Heat would replace every member" in refused.detail
        assert world.members(target) == after
        theirs = replace(world.target(spec(word=WORD)), physical_id=target.physical_id)
        for kind in ("DELETE", "UPDATE", "STACK_UPDATE"):
            done = await world.do(kind, theirs)
            assert done.state is FAILED
            assert f"copy of node {target.node_id}" in done.detail
        assert (await world.read(theirs)).up is None

    asyncio.run(scene())


def _own_stack(world: World, target: object) -> str:
    """Return the path of the stack within the only one."""
    inner = next(s for s in world.stacks("?show_nested=true")["stacks"] if s["parent"])
    return f"{inner['stack_name']}/{inner['id']}"


def test_a_stack_is_made_once_whoever_asks_and_updated_and_adopted(world: World) -> None:
    async def scene() -> None:
        target = world.target(spec(word=WORD))
        ident = new_id()
        op = Operation(kind="CREATE", target=target)
        # Several engines at the same moment, as after a split.
        await asyncio.gather(
            *(world.profile().submit(op, operation_id=ident, deadline_s=CALL_S) for _ in range(3))
        )
        done = await world.do("CREATE", target, operation_id=ident)
        assert done.state is DONE, done.detail
        alone = lambda: [s["id"] for s in world.stacks()["stacks"]] == [done.physical_id]  # noqa: E731
        until("the others are gone", alone, PATIENCE_S)
        known = replace(
            target, physical_id=done.physical_id or "", attributes=done.attributes or {}
        )
        await check_update(world.profile, known, spec(word=WORD, more=WORD), clock=clock)
        assert set(world.members(known)) == {"/word", "/more"}

        # A failed update of somebody's harms nothing, and nothing is done about it.
        path = f"/{known.attributes['stack_name']}/{known.physical_id}"
        bad = {**SERVER, "properties": {**SERVER["properties"], "flavor": "none"}}  # type: ignore[dict-item]
        wanted = spec(word=WORD, more=WORD, bad=bad)
        failed = await world.do("UPDATE", replace(known, spec=wanted))
        assert failed.state is FAILED
        assert "flavor" in failed.detail.lower() or "none" in failed.detail
        assert (await world.read(known)).up is not False
        assert path

        stray = world.stacks("", "POST", {"stack_name": "stray", **spec(word=WORD), "tags": "web"})
        found = lambda: world.stacks("?name=stray")["stacks"][0]  # noqa: E731
        until("stray is there", lambda: found()["stack_status"] == "CREATE_COMPLETE", PATIENCE_S)
        assert stray["stack"]["id"] == found()["id"]
        one, two = world.target(spec(word=WORD)), world.target(spec(word=WORD))
        await check_adopting(world.profile, "stray", one, two, clock=clock)

    with given_clock() as clock:
        asyncio.run(scene())


def test_a_stack_whose_guest_may_run_on_is_not_deleted_by_nova_forgetting_it(
    broken_world: World,
) -> None:
    world = broken_world

    async def scene() -> None:
        target = await world.made(spec(one=SERVER))
        server = world.members(target)["/one"][0]
        lab = world.cloud.lab
        host = world.cloud.show(server).host
        lab.kill_host(host)
        lab.until_host(host, "down")
        done = await world.do("DELETE", target)
        assert done.state is FAILED
        assert f"server {server} is gone from Nova" in done.detail
        assert "never confirmed" in done.detail
        # Neither this engine nor another one believes it later.
        assert (await world.do("DELETE", target)).state is FAILED
        lab.start_host(host)

    asyncio.run(scene())
