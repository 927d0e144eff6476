"""A policy that changes while a failure is being counted: `fall` looks stay an interval apart.

A new round asks at once. If what it sees completed a run of the round before, somebody who edits a
policy twice within a second would have `fall` looks within that second, and a node condemned by one
hiccup of its network.
"""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select
from tests.sim.stage import Stage, policy, stage

from yaffle.engine.commands import Commands
from yaffle.model.timing import JITTER
from yaffle.policy import parse_document
from yaffle.store.tables import actions
from yaffle.testing import run_virtual

INTERVAL_S = 5
FALL = 3
LEAST_S = (FALL - 1) * INTERVAL_S * (1 - JITTER)
"""Between the first of `fall` looks and the last."""
DETECT_S = FALL * INTERVAL_S * (1 + JITTER) + 3
RECOVERY = [{"limits": {"max_unhealthy": share, "max_in_flight": 2}} for share in ("100%", "60%")]
DETECTION = [{"node_update_timeout": grace} for grace in (20, 15)]


def written(**changed: Any) -> dict[str, Any]:
    return policy(**{"fall": FALL, "node_update_timeout": 15, **changed})


async def edit(s: Stage, **changed: Any) -> None:
    """Change the document by way of the engine's own process, which hears of it at once."""
    parsed = parse_document(written(**changed))
    commands = Commands(s.living[0].ctx)
    await commands.update_policy("policy-web", parsed, source="", by="op")


async def edit_for_ever(s: Stage) -> None:
    number = 0
    while True:
        await s.clock.sleep(1.0)
        number += 1
        await edit(s, **RECOVERY[number % 2])


async def admitted_s(s: Stage, since_us: int, within_s: float) -> float:
    """Wait for the first recovery since then; return how long after it was admitted."""
    query = select(actions.c.created_us).where(
        actions.c.action == "NODE_RECOVER", actions.c.created_us > since_us
    )
    for _ in range(int(within_s / 0.25)):
        found = await s.store.read(lambda c: c.execute(query).scalars().first())
        if found is not None:
            return float(found - since_us) / 1e6
        await s.clock.sleep(0.25)
    raise AssertionError(f"nothing admitted within {within_s:g} s\n{await s.picture()}")


def play(story: Any, seed: int) -> None:
    async def main() -> None:
        async with stage(seed) as s:
            s.start()
            await s.build(3, written())
            await s.clock.sleep(30)
            await story(s)

    run_virtual(main, seed=seed, cpu_s=60)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("edits", [RECOVERY, DETECTION], ids=["recovery", "detection"])
def test_an_edit_makes_no_verdict_faster(edits: list[dict[str, Any]], seed: int) -> None:
    """Three rounds within a second, each of which asks at once."""

    async def story(s: Stage) -> None:
        life = s.living[0]
        await life.kill()
        s.world.kill(s.node_ids()[0])
        s.start()
        began_us = s.clock.now_us()
        for number in range(4):
            await s.clock.sleep(0.3)
            await edit(s, **edits[number % 2])
        assert await admitted_s(s, began_us, 60) >= LEAST_S

    play(story, seed)


@pytest.mark.parametrize("seed", range(3))
def test_an_edit_of_what_is_done_leaves_the_round_alone(seed: int) -> None:
    """Edited every second, the failure is found as fast as if nobody had touched the policy."""

    async def story(s: Stage) -> None:
        s.world.kill(s.node_ids()[0])
        began_us = s.clock.now_us()
        busy = s.group.create_task(edit_for_ever(s))
        assert LEAST_S <= await admitted_s(s, began_us, 60) <= DETECT_S
        busy.cancel()

    play(story, seed)


@pytest.mark.parametrize("seed", range(3))
def test_an_edit_of_what_is_done_counts_at_once(seed: int) -> None:
    """The guard that held is gone with the next document, without a new round."""

    async def story(s: Stage) -> None:
        for ident in s.node_ids()[:2]:
            s.world.kill(ident)
        await edit(s, limits={"max_unhealthy": 1, "max_in_flight": 1})
        await s.clock.sleep(60)
        began_us = s.clock.now_us()
        await edit(s, limits={"max_unhealthy": 2, "max_in_flight": 1})
        assert await admitted_s(s, began_us, 60) < 2.0

    play(story, seed)


def test_an_edit_of_what_is_asked_is_asked_at_once() -> None:
    """A mode that goes takes its counts with it; what remains begins anew and still finds all."""

    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        s.world.kill(victim)
        await s.clock.sleep(INTERVAL_S * 1.5)
        began_us = s.clock.now_us()
        await edit(s, detection_modes=[{"type": "NODE_STATUS_POLLING"}])
        assert LEAST_S <= await admitted_s(s, began_us, 60) <= DETECT_S

    play(story, 1)
