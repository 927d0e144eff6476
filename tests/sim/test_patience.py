"""What a backend refuses for the time being is begun again, at once and then ever more rarely."""

from __future__ import annotations

from itertools import pairwise

from tests.sim.stage import Stage
from tests.sim.test_rules import play, results

from yaffle.model.timing import POLL_MAX_S, RESEND_MAX_S
from yaffle.testing import Fault, Rule

REFUSED_S = 600
ASKED = "submit:REBOOT"


def asked_s(s: Stage) -> list[float]:
    """Return when the engine tried to begin it."""
    return [at for at, call, _ in s.plan.calls if call == ASKED]


def test_ten_minutes_of_refusals_are_no_storm() -> None:
    async def story(s: Stage) -> None:
        refusing = Rule(fault=Fault.ERROR, call=ASKED)
        s.plan.rules.append(refusing)
        s.world.hang(s.node_ids()[0])

        await s.until(lambda: _true(len(asked_s(s)) >= 3), 60, "it is tried")
        soon = [later - sooner for sooner, later in pairwise(asked_s(s))]
        assert max(soon) < 3, "what may pass in a moment is tried again in a moment"
        await s.clock.sleep(REFUSED_S)
        tries = asked_s(s)
        assert len(tries) <= 10 + REFUSED_S / RESEND_MAX_S, len(tries)
        # And it goes on: what would take it now is not left waiting for long.
        longest = max(later - sooner for sooner, later in pairwise(tries))
        assert longest <= RESEND_MAX_S + 2 * POLL_MAX_S, longest
        s.plan.rules.remove(refusing)
        freed_s = s.clock.monotonic_s()
        await s.until(s.all_well, 60, "healed once it is taken")
        assert asked_s(s)[-1] - freed_s <= RESEND_MAX_S + 2 * POLL_MAX_S
        assert ("act", "done") in await results(s)

    play(story, actions=[{"name": "REBOOT", "timeout": 2 * REFUSED_S}])


async def _true(found: bool) -> bool:
    return found
