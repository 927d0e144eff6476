"""What a person insists on is not answered by an act that failed."""

from __future__ import annotations

import pytest
from tests.sim.stage import policy, stage
from tests.sim.test_rules import kinds

from yaffle.testing import Fault, Rule, run_virtual

LADDER = [{"name": "REBOOT", "timeout": 20}, {"name": "RECREATE", "timeout": 30}]


@pytest.mark.parametrize("how", ["mark", "request"])
def test_an_act_that_failed_does_not_answer_for_the_next(how: str) -> None:
    """The node looks well all the time; "recovered" after a failed REBOOT would be a lie."""

    async def story() -> None:
        async with stage(3) as s:
            s.start()
            await s.build(3, policy(actions=LADDER))
            await s.clock.sleep(30)
            s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:REBOOT"))
            before = len(kinds(s))
            victim = s.node_ids()[0]
            if how == "mark":
                await s.commands.mark(victim, reason="its disk clicks", by="op")
            else:
                await s.commands.recover(victim, by="op")
            await s.clock.sleep(90)
            assert await s.all_well()
            assert kinds(s)[before:][-1:] == ["CREATE"]

    run_virtual(story, seed=3, cpu_s=30)
