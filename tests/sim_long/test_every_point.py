"""A recovery is walked once to count its points; then the engine is killed at each of them in turn.

A point is the moment right before or right after a write to the store or a call to a driver. The
stories: REBOOT fails, so the node is fenced and made anew; an image is taken of the node, and it is
rebuilt from that. A successor has to bring it to the same end, with nothing done twice.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy import select
from tests.sim.points import EVERY, TWO_ENGINES, Points
from tests.sim.stage import Stage, policy, stage

from yaffle.core.recovery.ladder import End, position
from yaffle.engine.execution.executor import done_of, plan_of
from yaffle.store import actions, incidents, journal
from yaffle.store.rows import ActionRow, load
from yaffle.store.tables import actions as actions_table
from yaffle.store.tables import incidents as incidents_table
from yaffle.testing import Fault, Rule, run_virtual

SEED = 11
STORIES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "made anew": ({}, ("submit REBOOT", "fence", "submit DELETE", "submit CREATE")),
    "disk kept": (
        {
            "actions": [{"name": "REBUILD", "timeout": 30}],
            "snapshot": {"take": True, "restore": True, "timeout": 20},
        },
        ("submit SNAPSHOT", "submit REBUILD"),
    ),
}
"""What the policy says besides, and before which calls an engine has to have been killed."""


async def recovery(fatal: int | None, told: str, *, alone: bool) -> tuple[list[str], list[str]]:
    """Play the story, killing the first engine at point `fatal`; return points and side effects."""
    async with stage(SEED, alone=alone) as s:
        first = s.start()
        await s.build(3, policy(**STORIES[told][0]))
        before = len(s.world.acts)
        victim = s.node_ids()[0]
        # Every time: a call that is cut off by the kill has met the fault, and told nobody.
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:REBOOT"))
        s.world.hang(victim)
        points = Points(first, fatal)

        async def ended() -> bool:
            last = await s.store.read(lambda c: incidents.last_of(c, victim))
            return last is not None and last.ended_us is not None

        async with asyncio.timeout(900):
            if fatal is not None:
                await points.reached.wait()
                await first.kill()
                s.start()
            await s.until(ended, 300, f"the recovery has ended (killed at point {fatal})")
        names = list(points.names)
        await s.until(s.all_well, 120, "every node is well")
        await s.clock.sleep(60)
        await _consistent(s, victim)
        last = s.world.present(victim)
        assert last is not None
        made_of = f"made of {last.spec['image']!r}"
        return names, [*(f"{a.kind} {a.physical_id}" for a in s.world.acts[before:]), made_of]


async def _consistent(s: Stage, victim: Any) -> None:
    """The journal of the recovery can be replayed to its end, and there was one recovery."""

    def work(conn: Any) -> Any:
        query = select(actions_table).where(
            actions_table.c.action == "NODE_RECOVER", actions_table.c.node_id == victim
        )
        rows = [load(ActionRow, r) for r in conn.execute(query)]
        return [(a, journal.of_action(conn, a.id)) for a in rows]

    walked = await s.store.read(work)
    assert len(walked) == 1, "one failure is one recovery"
    told = select(incidents_table.c.id).where(incidents_table.c.node_id == victim)
    assert len(await s.store.read(lambda conn: conn.execute(told).all())) == 1
    action, steps = walked[0]
    assert action.status == actions.SUCCEEDED
    assert all(step.phase == journal.ENDED for step in steps)
    _, ladder = plan_of(s.ctx, action)
    assert position(ladder, [done_of(step) for step in steps]) is End.RECOVERED


def play(fatal: int | None, told: str, *, alone: bool) -> tuple[list[str], list[str]]:
    return run_virtual(lambda: recovery(fatal, told, alone=alone), seed=SEED, cpu_s=60)


@TWO_ENGINES
@pytest.mark.parametrize("told", STORIES)
def test_killed_at_every_point(told: str, alone: bool) -> None:
    """The side effects are those of an undisturbed recovery: nothing twice, nothing missing."""
    names, undisturbed = play(None, told, alone=alone)
    calls = [names.index(f"before {call}") for call in STORIES[told][1]]
    wrong = {}
    for fatal in sorted({*range(SEED % EVERY[alone], len(names), EVERY[alone]), *calls}):
        _, effects = play(fatal, told, alone=alone)
        if effects != undisturbed:
            wrong[f"{fatal} {names[fatal]}"] = effects
    assert not wrong, f"instead of {undisturbed}"
