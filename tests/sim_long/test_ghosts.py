"""A verified recovery ends its failure: what was seen before it votes for no other one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import select
from tests.sim.stage import Stage
from tests.sim.test_refusals import REBOOT
from tests.sim.test_unasked import play

from yaffle.engine.detection.health_persistence import save
from yaffle.model.health import Health
from yaffle.store.tables import actions, incidents

SLOW: dict[str, Any] = {
    "interval": 30,
    "fall": 1,
    "node_update_timeout": 60,
    "retry": {"attempts": 2, "backoff": 60, "max_backoff": 60},
}
"""The next look of the watch is far away when a recovery has ended."""


async def read(s: Stage, query: Any) -> Sequence[Any]:
    return await s.store.read(lambda conn: conn.execute(query).all())


async def recovering(s: Stage, victim: Any) -> bool:
    query = select(actions.c.id).where(
        actions.c.action == "NODE_RECOVER",
        actions.c.node_id == victim,
        actions.c.status == "RUNNING",
    )
    return bool(await read(s, query))


async def only_one(s: Stage, victim: Any, *ends: str) -> None:
    await s.clock.sleep(200)
    assert await s.all_well()
    found = await read(s, select(incidents).where(incidents.c.node_id == victim))
    assert [one.state for one in found] in [[end] for end in ends]


@pytest.mark.parametrize("after_s", [0.0, 0.02, 0.1, 0.5, 1.0, 2.0])
def test_what_wakes_while_it_is_looked_at_is_no_second_failure(after_s: float) -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        s.world.hang(victim)
        while not await recovering(s, victim):
            await s.clock.sleep(0.01)
        await s.clock.sleep(after_s)
        s.world.revive(victim)
        await only_one(s, victim, "already-healthy", "recovered")

    play(story, actions=REBOOT, **SLOW)


def test_what_was_believed_before_is_not_written_over_what_was_verified() -> None:
    """The watch has read its rows right before the recovery ended, and writes right after."""

    async def story(s: Stage) -> None:
        (life,) = s.living
        (watch,) = life.engine.watches.values()
        victim = s.node_ids()[0]
        s.world.hang(victim)
        while not await recovering(s, victim):
            await s.clock.sleep(0.01)
        before = {victim: watch.memories[victim]}
        assert before[victim].health is Health.UNHEALTHY
        s.world.revive(victim)
        while await recovering(s, victim):
            await s.clock.sleep(0.01)
        session, scene = life.engine.session, watch._snapshot
        assert session is not None
        assert scene is not None
        await s.store.write(lambda conn: save(life.ctx, session, conn, scene, before))
        (row,) = [n for n in await s.nodes() if n.id == victim]
        assert row.health == Health.HEALTHY
        # Nor does the watch go on believing it until it asks again.
        await s.clock.sleep(3)
        assert watch.memories[victim].health is Health.HEALTHY
        await only_one(s, victim, "already-healthy")

    play(story, actions=REBOOT, **SLOW)


@pytest.mark.parametrize("after_s", [0.1, 0.5, 1.0, 2.0, 4.0])
def test_who_takes_over_believes_what_a_recovery_has_verified(after_s: float) -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        s.world.hang(victim)
        while not await recovering(s, victim):
            await s.clock.sleep(0.01)
        await s.clock.sleep(after_s)
        await s.lives[0].kill()
        s.start()
        await only_one(s, victim, "recovered")

    play(story, actions=REBOOT, **SLOW)
