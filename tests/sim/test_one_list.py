"""Where one answer tells of all nodes, clusters are looked at in step and the answer is shared."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sim.stage import policy, stage

from yaffle.testing import Fault, Rule, ScriptedProfile, run_virtual

STATUS = [{"type": "NODE_STATUS_POLLING"}]
INTERVAL_S = 5
CLUSTERS = 5


class Counting(ScriptedProfile):
    """Counts the questions about more than one node: of one that is about to be acted upon each asks."""

    lists = 0

    async def read(self, targets: Any, *, deadline_s: float) -> Any:
        self.lists += len(targets) > 1
        return await super().read(targets, deadline_s=deadline_s)


class Telling(Counting):
    def pool(self, target: Any) -> str:
        return str(target.project)


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [pytest.param(Telling, 0.95, 1.1, id="in step"), pytest.param(Counting, 4.5, 5.5, id="each")],
)
def test_five_clusters_of_a_cloud_cost_one_list_an_interval(
    kind: type[Counting], least: float, most: float
) -> None:
    async def main() -> None:
        async with stage(7) as s:
            s.profile = kind(s.world, s.plan)
            s.start()
            for n in range(CLUSTERS):
                await s.build(2, policy(detection_modes=STATUS), name=f"c{n}")
                await s.clock.sleep(1.3)
            # From anywhere, in five looks.
            await s.clock.sleep(6 * INTERVAL_S)
            before = s.profile.lists
            await s.clock.sleep(40 * INTERVAL_S)
            assert least <= (s.profile.lists - before) / 40 <= most

    run_virtual(main, seed=7, cpu_s=60)


def test_who_is_looked_at_in_step_is_found_and_healed_as_ever() -> None:
    async def main() -> None:
        async with stage(8) as s:
            s.profile = Telling(s.world, s.plan)
            s.start()
            for n in range(CLUSTERS):
                await s.build(2, policy(detection_modes=STATUS), name=f"c{n}")
            await s.clock.sleep(60)
            victim = s.node_ids()[0]
            since = len(s.world.acts)
            # A list that fails is nobody's failure, and the next one counts.
            s.plan.rules.append(Rule(fault=Fault.ERROR, call="read", times=1))
            s.world.kill(victim)
            await s.until(s.all_well, 120, "healed")
            assert {act.node_id for act in s.world.acts[since:]} == {victim}

    run_virtual(main, seed=8, cpu_s=60)
