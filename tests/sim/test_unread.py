"""What an engine cannot read, or has no driver for, is not taken for what is not there."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select
from tests.sim.stage import Stage, stage
from tests.sim.test_node_actions import alone, ended, node
from tests.sim.test_refusals import RECREATE, acts
from tests.sim.test_rules import play, results
from tests.sim.test_wishes import URL

from yaffle.model.authz import LOCAL
from yaffle.store import incidents
from yaffle.store.tables import policies, steps
from yaffle.testing import Fault, Rule, run_virtual


def test_a_policy_that_cannot_be_read_is_another_thing_than_none() -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="fence"))
        s.world.hang(victim)
        await s.until(lambda: fell_ill(s, victim), 60, "it is ill")
        junk = {"type": "senlin.policy.health", "version": "9.9", "properties": {}}
        now_us = s.clock.now_us()
        await s.store.write(
            lambda c: c.execute(policies.update().values(spec=junk, updated_us=now_us))
        )
        since = len(s.plan.calls)
        await s.clock.sleep(60)
        await s.commands.recover(victim, by="op")
        await s.clock.sleep(60)
        assert not acts(s, since, but="fence"), "nobody knows how it is to be fenced"
        row = await node(s, victim)
        assert row.status != "ACTIVE"
        incident = await s.store.read(lambda c: incidents.open_of(c, victim))
        assert incident is not None
        assert incident.hold_reason == "dependency-lost"

    play(story, actions=RECREATE)


def test_whom_no_driver_here_can_heal_is_held_and_loses_no_try() -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        profiles = dict(s.lives[0].ctx.drivers.profiles)
        s.lives[0].ctx.drivers.profiles.clear()
        s.world.kill(victim)
        since = len(s.plan.calls)
        await s.clock.sleep(120)
        await s.commands.recover(victim, by="op")
        await s.clock.sleep(120)
        assert not acts(s, since)
        assert await results(s) == []
        row = await node(s, victim)
        assert (row.attempts, row.exhausted_us) == (0, None)
        incident = await s.store.read(lambda c: incidents.open_of(c, victim))
        assert incident is not None
        assert incident.hold_reason == "dependency-lost"
        (what,) = incident.hold_numbers["lost"]
        assert what == f"the driver of profile type {s.profile.type} (install its package)"
        s.lives[0].ctx.drivers.profiles.update(profiles)
        await s.until(s.all_well, 120, "healed, now that its driver is here")

    play(story, actions=RECREATE, detection_modes=URL)


async def fell_ill(s: Stage, victim: Any) -> bool:
    return bool((await node(s, victim)).health == "unhealthy")


def test_an_update_gives_no_copy_up_because_its_driver_is_not_here() -> None:
    async def story() -> None:
        async with stage(5) as s:
            s.start()
            ident = await alone(s)
            s.lives[0].ctx.drivers.profiles.clear()
            since = len(s.plan.calls)
            done = await ended(s, await s.commands.node_update(LOCAL, ident, profile="labelled"))
            assert done.status == "FAILED"
            assert not acts(s, since)
            assert [stage for stage, _ in await steps_of(s, done.id)] == ["act"]
            assert s.world.alive(ident)

    run_virtual(story, seed=5, cpu_s=60)


async def steps_of(s: Stage, action_id: Any) -> list[tuple[str, str]]:
    query = select(steps.c.stage, steps.c.result).where(steps.c.action_id == action_id)
    return [tuple(row) for row in await s.store.read(lambda c: c.execute(query).all())]
