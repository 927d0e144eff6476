"""A process that was frozen or without its database goes on with its own half-done steps.

Nobody was at them meanwhile: what was never tried is tried, and what may have succeeded is asked for.
"""

from __future__ import annotations

import pytest
from tests.sim.stage import Stage, policy, stage
from tests.sim.test_rules import results

from yaffle.testing import run_virtual

AWAY_S = 150.0
"""Longer than a fence may be tried, and than the rung may take."""
RECREATE = [{"name": "RECREATE", "timeout": 60}]


class Strike:
    """The engine's process loses its database, or stands still, at a point of its run."""

    def __init__(self, s: Stage, how: str, point: str, nth: int) -> None:
        self._stage, self._how, self._point, self._nth = s, how, point, nth
        self._gate = s.living[0].gate
        self._gate.on_point = self._passed

    def _passed(self, point: str) -> None:
        self._nth -= point == self._point
        if self._nth == 0 and point == self._point:
            if self._how == "outage":
                self._stage.weather.away = True
            else:
                self._gate.freeze()

    async def over(self) -> None:
        """Wait until it has struck, let it last, and end it."""

        async def struck() -> bool:
            return self._nth <= 0

        await self._stage.until(struck, 200, f"reached {self._point}")
        await self._stage.clock.sleep(AWAY_S)
        self._stage.weather.away = False
        self._gate.thaw()


@pytest.mark.parametrize("how", ["outage", "freeze"])
def test_a_fence_that_was_never_tried_is_tried_before_its_proof_is_waived(how: str) -> None:
    async def story() -> None:
        async with stage(7) as s:
            s.start()
            await s.build(3, policy(actions=RECREATE, node_force_recreate=True))
            # The intents of LOOK and of FENCE.
            strike = Strike(s, how, "after StepRunner._intend.work", 2)
            s.world.hang(s.node_ids()[0])
            await strike.over()
            await s.until(s.all_well, 100, "healed")
            assert ("fence", "proved") in await results(s)

    run_virtual(story, seed=7, cpu_s=100)


@pytest.mark.parametrize("how", ["outage", "freeze"])
def test_a_creation_that_succeeded_is_asked_for_however_late(how: str) -> None:
    async def story() -> None:
        async with stage(7) as s:
            s.start()
            await s.build(3, policy(actions=RECREATE))
            victim = s.node_ids()[0]
            strike = Strike(s, how, "after submit CREATE", 1)
            s.world.kill(victim)
            await strike.over()
            made = [c.physical_id for c in s.world.alive(victim)]
            await s.until(s.all_well, 100, "healed")
            assert [c.physical_id for c in s.world.alive(victim)] == made
            assert ("create", "failed") not in await results(s)

    run_virtual(story, seed=7, cpu_s=100)
