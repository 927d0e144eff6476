"""A backend that is slow is asked more rarely how it goes, the more so the more are being healed."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sim.stage import policy, stage

from yaffle.config import BudgetSettings, BudgetsSettings
from yaffle.model.timing import POLL_MAX_S, RESEND_MAX_S, follow_pause_s
from yaffle.testing import ScriptedProfile, run_virtual

WIDE = BudgetSettings(max_in_flight=20, burst=40, per_hour=7200)
BUDGETS = BudgetsSettings(total=WIDE, project=WIDE, domain=WIDE, host=WIDE, cluster=WIDE)
CREATE_S = 40.0


class Slow(ScriptedProfile):
    """Takes `answer_s` for each answer to how far an operation is."""

    answer_s = 0.0
    polls = 0

    async def poll(self, *args: Any, **named: Any) -> Any:
        self.polls += 1
        await self.world.clock.sleep(self.answer_s)
        return await super().poll(*args, **named)


@pytest.mark.parametrize(
    ("answer_s", "victims", "most_each", "healed_s"),
    [
        # The usual pauses: 0.2 s growing to 2 s.
        pytest.param(0.05, 10, 25, 60, id="a quick one is asked as ever"),
        pytest.param(1.0, 1, 17, 62, id="one alone loads nothing"),
        pytest.param(1.0, 10, 9, 65, id="ten of them halve what they ask"),
        pytest.param(3.0, 10, 5, 85, id="slower still"),
    ],
)
def test_how_often_a_backend_is_asked_how_far_operations_are(
    answer_s: float, victims: int, most_each: int, healed_s: float
) -> None:
    async def main() -> None:
        async with stage(8, budgets=BUDGETS) as s:
            s.profile = profile = Slow(s.world, s.plan)
            s.max_in_flight = 10
            s.start()
            actions = [{"name": "RECREATE", "timeout": 120}]
            wide = {"max_unhealthy": "60%", "max_in_flight": 10}
            await s.build(20, policy(actions=actions, limits=wide), create_s=CREATE_S)
            await s.clock.sleep(30)
            profile.answer_s, profile.polls = answer_s, 0
            for victim in s.node_ids()[:victims]:
                s.world.kill(victim)
            began_s = s.clock.monotonic_s()
            await s.until(s.all_well, healed_s, "healed")
            assert s.clock.monotonic_s() - began_s > CREATE_S
            assert profile.polls / victims <= most_each

    run_virtual(main, seed=8, cpu_s=60)


@pytest.mark.parametrize(
    ("usual_s", "answer_s", "followers", "left_s", "pause_s"),
    [
        pytest.param(0.2, 0.05, 4, 60.0, 0.2, id="quick"),
        pytest.param(POLL_MAX_S, 1.0, 2, 60.0, POLL_MAX_S, id="two at once are none too many"),
        pytest.param(POLL_MAX_S, 1.0, 10, 60.0, 5.0, id="two of ten ask at a time"),
        pytest.param(POLL_MAX_S, 4.0, 10, 60.0, RESEND_MAX_S, id="bounded"),
        pytest.param(POLL_MAX_S, 4.0, 10, 3.0, 3.0, id="not beyond the deadline"),
        pytest.param(POLL_MAX_S, 4.0, 10, -1.0, POLL_MAX_S, id="over"),
    ],
)
def test_the_pause(
    usual_s: float, answer_s: float, followers: int, left_s: float, pause_s: float
) -> None:
    assert follow_pause_s(usual_s, answer_s, followers, left_s) == pause_s
