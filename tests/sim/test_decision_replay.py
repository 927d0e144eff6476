"""One night with every reason to hold: each decision that a real engine stored comes to the same.

The audit of every simulation asks the same after each write; this one makes sure that there was
something to ask about. YAFFLE_SIM_RUNS nights are played, each from its own seed.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from sqlalchemy import select
from tests.sim.stage import Stage, policy, stage

from yaffle.core.decision_audit.replay import Agreement, Disagreement, recheck
from yaffle.engine.queries.decisions import stored
from yaffle.model.incident import PauseKind, PauseScope
from yaffle.store.tables import decisions
from yaffle.testing import Fault, Rule, run_virtual

RUNS = min(int(os.environ.get("YAFFLE_SIM_RUNS") or 1), 200)


def night(story: Any, *, seed: int, size: int = 6, **changed: Any) -> list[Any]:
    """Play a story on a cluster that is well, and return every decision that was stored."""
    found: list[Any] = []

    async def main() -> None:
        async with stage(seed) as s:
            s.start()
            await s.build(size, policy(**changed))
            await s.clock.sleep(30)
            await story(s)
            await s.clock.sleep(10)
            query = select(decisions).order_by(decisions.c.seq)
            found.extend(await s.store.read(lambda conn: conn.execute(query).mappings().all()))
            assert s.audit.recheck.agreed == len(found)

    run_virtual(main, seed=seed, cpu_s=60)
    return found


def words(rows: list[Any]) -> set[str]:
    return {row["reason"] or row["kind"] for row in rows}


async def fall(s: Stage, *places: int) -> None:
    for place in places:
        s.world.kill(s.node_ids()[place])
    await s.clock.sleep(14)


async def every_guard(s: Stage) -> None:
    """Two at once, a third that waits; a stop; planned work; a storm; blindness; a freeze."""
    await fall(s, 0, 1, 2)
    await s.until(s.all_well, 300, "three were healed")
    await s.commands.pause(PauseKind.STOP, PauseScope.ALL, "", owner="op", reason="night", for_s=30)
    planned = s.node_ids()[4]
    await s.commands.pause(
        PauseKind.MAINTENANCE, PauseScope.NODE, planned, owner="op", reason="disk", for_s=None
    )
    await fall(s, 3, 4)
    await s.clock.sleep(30)
    await s.commands.pause(
        PauseKind.MAINTENANCE, PauseScope.NODE, planned, owner="op", reason="again", for_s=20
    )
    s.world.partitioned = True
    await s.clock.sleep(40)
    s.world.partitioned = False
    await fall(s, 0, 1, 2, 3, 5)
    (life,) = s.living
    life.gate.freeze()
    await s.clock.sleep(30)
    life.gate.thaw()
    await s.clock.sleep(20)
    await s.commands.recover(s.node_ids()[0], by="op")
    await s.clock.sleep(20)


@pytest.mark.parametrize("seed", range(RUNS))
def test_a_night_with_every_guard(seed: int) -> None:
    seen = words(night(every_guard, seed=seed))
    assert seen >= {"recover", "in-flight", "stopped", "maintenance", "storm", "resettling"}


async def one_that_never_lasts(s: Stage) -> None:
    s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:*"))
    await fall(s, 0)
    await s.clock.sleep(240)


def test_rests_and_their_end_agree() -> None:
    rows = night(one_that_never_lasts, seed=3)
    assert words(rows) >= {"recover", "cooling-down", "needs-human"}


async def waves(s: Stage) -> None:
    """More than the cluster's budget holds."""
    for _ in range(6):
        await fall(s, *range(6))


def test_spent_budgets_agree() -> None:
    rows = night(
        waves,
        seed=4,
        fall=1,
        actions=[{"name": "REBOOT", "timeout": 30}],
        limits={"max_unhealthy": "100%", "max_in_flight": 2},
        retry={"attempts": 20, "backoff": 5, "max_backoff": 5, "stable_after": 60},
    )
    assert words(rows) >= {"recover", "rate", "in-flight"}


async def all_at_once(s: Stage) -> None:
    """The policy would allow six; the installation allows three, also in a single pass."""
    s.max_in_flight = 6
    await fall(s, *range(6))


def test_one_pass_keeps_to_what_is_shared() -> None:
    rows = night(all_at_once, seed=7, limits={"max_unhealthy": "100%", "max_in_flight": 6}, fall=1)
    held = [r for r in rows if r["reason"] == "in-flight"]
    assert {r["numbers"]["scope"] for r in held} == {"global"}
    assert {r["numbers"]["in_flight"] for r in held} == {3}


async def nothing_but_looking(s: Stage) -> None:
    await fall(s, 0, 1)


def test_what_would_be_done_agrees() -> None:
    rows = night(nothing_but_looking, seed=5, mode="observe")
    assert words(rows) == {"observe-mode"}


def test_the_checker_is_not_blind() -> None:
    """A row that a real engine stored, changed in one place, is found."""
    row = dict(night(nothing_but_looking, seed=6)[0])
    assert recheck(stored(row)) == Agreement()  # type: ignore[arg-type]
    row["numbers"] = {**row["numbers"], "sick": 99}
    found = recheck(stored(row))  # type: ignore[arg-type]
    assert isinstance(found, Disagreement)
    assert (found.field, found.stored) == ("numbers.sick", 99)
