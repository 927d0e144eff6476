"""Each cluster action is played once to count its points; then the engine is killed at each of them.

A point is the moment right before or right after a write to the store or a call to a driver. A
successor has to bring the action to its end, with nothing done twice and nothing left behind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.sim.jobs import (
    WHO,
    a_cluster,
    all_actions,
    as_wanted,
    ask,
    document,
    ended,
    members,
    no_cluster,
    settled,
)
from tests.sim.points import ASIDE, THOROUGH, Points
from tests.sim.stage import Stage, stage

from yaffle.store import journal
from yaffle.testing import Fault, Rule, run_virtual

SEED = 23
EVERY = 1 if THOROUGH else 61
"""Of so many points one is tried: all in `make sim`, a spread of them in every test run."""
Asked = Callable[[Stage], Awaitable[str]]


async def create(s: Stage) -> str:
    await a_cluster(s, 3, wait=False)
    return next(a.id for a in await all_actions(s) if a.action == "CLUSTER_CREATE")


async def scale_in(s: Stage) -> str:
    return await ask(s, "scale_in", {"count": 2})


async def stubborn_scale_in(s: Stage) -> str:
    s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:DELETE", times=1))
    return await ask(s, "scale_in", {"count": 1})


async def update(s: Stage) -> str:
    await s.commands.create_profile("new", s.profile.type, {"image": "2"}, by="op")
    return str(await s.commands.cluster_update(WHO, "web", profile="new"))


async def replace(s: Stage) -> str:
    orphan = next(n.id for n in await s.nodes() if n.cluster_id is None)
    return await ask(s, "replace_nodes", {"nodes": {(await members(s))[0].id: orphan}})


async def delete(s: Stage) -> str:
    return str(await s.commands.cluster_delete(WHO, "web"))


async def recover(s: Stage) -> str:
    s.world.kill((await members(s))[1].id)
    return await ask(s, "recover", {"check": True, "check_capacity": True})


async def cancelled(s: Stage) -> str:
    ident = await ask(s, "scale_out", {"count": 2})
    await s.clock.sleep(0.5)
    await s.commands.action_cancel(WHO, ident)
    return ident


STORIES: dict[str, tuple[Asked, str]] = {
    "create": (create, "CLUSTER_CREATE"),
    "scale-in": (scale_in, "CLUSTER_SCALE_IN"),
    "stubborn": (stubborn_scale_in, "CLUSTER_SCALE_IN"),
    "update": (update, "CLUSTER_UPDATE"),
    "replace": (replace, "CLUSTER_REPLACE_NODES"),
    "delete": (delete, "CLUSTER_DELETE"),
    "recover": (recover, "CLUSTER_RECOVER"),
    "cancelled": (cancelled, "CLUSTER_SCALE_OUT"),
}


async def play(name: str, fatal: int | None) -> tuple[list[str], list[str]]:
    """Tell a story, killing the first engine at point `fatal`; return points and side effects."""
    asked, kind = STORIES[name]
    async with stage(SEED) as s:
        first = s.start()
        if name != "create":
            await _prepare(s)
        before = len(s.world.acts)
        points = Points(first, fatal)
        ident = await asked(s)
        async with asyncio.timeout(900):
            if fatal is not None:
                await points.reached.wait()
                await first.kill()
                s.start()
            # One that was cancelled may have come to its end before it heard of it.
            status = "CANCELLED" if name == "cancelled" else "SUCCEEDED"
            await ended(s, ident, status=status)
        names = list(points.names)
        await settled(s)
        await _good(s, name, kind)
        return names, sorted(f"{a.kind} {a.physical_id}" for a in s.world.acts[before:])


async def _prepare(s: Stage) -> None:
    await a_cluster(s, 3, document("batch", min_in_service=2, max_batch_size=1, pause_time=2))
    _, action = await s.commands.node_create(WHO, name="spare", profile="web-profile")
    await ended(s, action)


async def _good(s: Stage, name: str, kind: str) -> None:
    if name == "delete":
        assert await no_cluster(s)
    elif name != "cancelled":
        await as_wanted(s)
    if name == "update":
        assert {c.spec["image"] for n in await members(s) for c in s.world.alive(n.id)} == {"2"}
    every = await all_actions(s)
    assert len([a for a in every if a.action == kind]) == 1
    for a in every:
        steps = await s.store.read(lambda c, a=a: journal.of_action(c, a.id))
        assert all(step.phase == journal.ENDED for step in steps), a
    alive = [i for i in s.node_ids() if s.world.alive(i)]
    assert set(alive) <= {n.id for n in await s.nodes()}, "copies of nodes that there are not"


def one(name: str, fatal: int | None) -> tuple[list[str], list[str]]:
    return run_virtual(lambda: play(name, fatal), seed=SEED, cpu_s=60)


@pytest.mark.timeout(3600 if THOROUGH else 120)
@pytest.mark.parametrize("name", STORIES)
def test_killed_at_every_point(name: str) -> None:
    """The side effects are those of an undisturbed run: nothing twice, nothing missing."""
    names, undisturbed = one(name, None)
    assert any("carry_on" in n for n in names)
    wrong: dict[str, Any] = {}
    for fatal, point in list(enumerate(names))[SEED % EVERY :: EVERY]:
        assert not point.split(" ", 1)[-1].startswith(ASIDE)
        _, effects = one(name, fatal)
        if effects != undisturbed and name != "cancelled":
            wrong[f"{fatal} {point}"] = effects
    assert not wrong, f"instead of {undisturbed}"
