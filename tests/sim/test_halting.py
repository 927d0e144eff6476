"""An operator says stop while a node is being healed: what was begun ends, and nothing more begins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from tests.sim.stage import Stage, policy, stage
from tests.sim.test_rules import results

from yaffle.model.incident import PauseKind, PauseScope
from yaffle.testing import Fault, Rule, run_virtual

ACTS = ("fence", "submit:DELETE", "submit:CREATE", "submit:REBOOT")
LADDER = [{"name": "REBOOT", "timeout": 15}, {"name": "RECREATE", "timeout": 30}]
STOP = (PauseKind.STOP, PauseScope.ALL)
MAINTENANCE = (PauseKind.MAINTENANCE, PauseScope.NODE)
Until = Callable[[], Awaitable[bool]]


def acted(s: Stage, call: str) -> Until:
    """Return a condition: a call of that name was made."""
    before = len(s.plan.calls)

    async def made() -> bool:
        return any(name == call for _, name, _ in s.plan.calls[before:])

    return made


@pytest.mark.parametrize(("kind", "scope"), [STOP, MAINTENANCE], ids=["stop", "maintenance"])
@pytest.mark.parametrize("call", ["submit:REBOOT", "fence", "submit:DELETE"])
def test_a_recovery_is_halted_before_its_next_act_and_goes_on_once_it_may(
    kind: PauseKind, scope: PauseScope, call: str
) -> None:
    async def story() -> None:
        async with stage(3) as s:
            s.start()
            await s.build(
                3, policy(actions=LADDER, fencing=[] if call == "submit:DELETE" else ["COMPUTE"])
            )
            await s.clock.sleep(30)
            s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:REBOOT", times=1000))
            s.plan.rules.append(Rule(fault=Fault.LOSE, call="fence", times=1))
            victim = s.node_ids()[0]
            begun = acted(s, call)
            s.world.hang(victim)
            for _ in range(5000):
                if await begun():
                    break
                await s.clock.sleep(0.02)
            said_s = s.clock.monotonic_s()
            target = victim if scope is PauseScope.NODE else ""
            pause = await s.commands.pause(
                kind, scope, target, owner="op", reason="disk", for_s=None
            )
            await s.clock.sleep(60)
            assert (await results(s))[-1][1] == "halted"
            late = [name for at_s, name, _ in s.plan.calls if name in ACTS and at_s > said_s]
            # What was submitted may be submitted again under its id; no other act may begin.
            assert set(late) <= {call}, late
            assert not s.world.serving(victim)
            await s.commands.lift(pause, by="op")
            await s.until(s.all_well, 200, "healed once it was lifted")

    run_virtual(story, seed=3, cpu_s=60)
