"""Observe mode says what live mode does: the same seeded world, played once in each.

Until the first act both worlds are the same to the microsecond, so the decisions have to be the
same, numbers included; what one calls `recover` the other holds as `observe-mode`. Afterwards the
worlds part, and each decision that observe mode stored is made once more by the live planner.
YAFFLE_SIM_RUNS seeds are played.
"""

from __future__ import annotations

import os
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from sqlalchemy import func, select
from tests.sim.stage import Stage, policy, stage

from yaffle.core.decision_audit.replay import plain, replayed
from yaffle.core.decision_audit.schema import Stored
from yaffle.engine.queries.decisions import stored
from yaffle.model.incident import Hold, HoldReason, PauseKind, PauseScope, Recover
from yaffle.model.policy import RecoveryMode
from yaffle.store.tables import actions, budgets, decisions
from yaffle.testing import run_virtual

RUNS = min(int(os.environ.get("YAFFLE_SIM_RUNS") or 2), 1000)
SEED = os.environ.get("YAFFLE_SIM_SEED")
SEEDS = [int(SEED)] if SEED else list(range(RUNS))
ACTS = ("submit", "fence", "poll")

Story = Callable[[Stage], Awaitable[None]]


@dataclass
class Played:
    """What is left of one run."""

    rows: list[Stored] = field(default_factory=list)
    acts: list[str] = field(default_factory=list)
    recoveries: int = 0
    spent: int = 0


def play(seed: int, size: int, story: Story, document: dict[str, Any]) -> Played:
    """Play a story and return what was decided and done in it."""
    found = Played()

    async def main() -> None:
        async with stage(seed) as s:
            s.start()
            await s.build(size, document)
            await s.clock.sleep(20)
            s.world.acts.clear()
            calls = len(s.plan.calls)
            await story(s)
            await look_back(s, found)
            found.acts += [c for _, c, _ in s.plan.calls[calls:] if c.startswith(ACTS)]
            s.world.settle()
            found.acts += [a.kind for a in s.world.acts]

    run_virtual(main, seed=seed, cpu_s=90)
    return found


async def look_back(s: Stage, found: Played) -> None:
    def work(conn: Any) -> None:
        rows = conn.execute(select(decisions).order_by(decisions.c.seq)).mappings().all()
        found.rows = [stored(row) for row in rows]
        recoveries = select(func.count()).where(actions.c.action == "NODE_RECOVER")
        found.recoveries = conn.execute(recoveries).scalar_one()
        found.spent = conn.execute(select(func.count()).select_from(budgets)).scalar_one()

    await s.store.read(work)


# --- a night from a seed --------------------------------------------------------------------------


def night(seed: int) -> tuple[int, Story, dict[str, Any]]:
    """Return size, story and policy: failures, pauses, marks, blindness and freezes at fixed times."""
    rng = random.Random(f"observe {seed}")
    size = rng.randint(3, 8)
    script = sorted(
        (rng.uniform(0, 120), rng.choice(TROUBLES), rng.randrange(size), rng.uniform(3, 50))
        for _ in range(rng.randint(2, 9))
    )

    async def story(s: Stage) -> None:
        began_s = s.clock.monotonic_s()
        ids = s.node_ids()
        for at_s, trouble, place, lasts_s in script:
            await s.clock.sleep(max(0.0, began_s + at_s - s.clock.monotonic_s()))
            s.group.create_task(trouble(s, ids[place], lasts_s))
        await s.clock.sleep(began_s + 160 - s.clock.monotonic_s())

    changed = {
        "recovery_conditional": rng.choice(["ANY_FAILED", "ANY_FAILED", "ALL_FAILED"]),
        "fall": rng.randint(1, 3),
        "node_update_timeout": 15,
        "limits": {
            "max_unhealthy": rng.choice(["40%", "60%", "100%"]),
            "when_exceeded": rng.choice(["hold", "slow"]),
            "max_in_flight": rng.randint(1, 2),
        },
    }
    return size, story, changed


async def dies(s: Stage, node: Any, _lasts_s: float) -> None:
    s.world.kill(node)


async def hangs(s: Stage, node: Any, lasts_s: float) -> None:
    s.world.hang(node)
    await s.clock.sleep(lasts_s)
    s.world.revive(node)


async def stops(s: Stage, _node: Any, lasts_s: float) -> None:
    await s.commands.pause(
        PauseKind.STOP, PauseScope.ALL, "", owner="op", reason="night", for_s=lasts_s
    )


async def maintains(s: Stage, node: Any, lasts_s: float) -> None:
    await s.commands.pause(
        PauseKind.MAINTENANCE, PauseScope.NODE, node, owner="op", reason="disk", for_s=lasts_s
    )


async def marks(s: Stage, node: Any, _lasts_s: float) -> None:
    await s.commands.mark(node, reason="smells", by="op")


async def parts(s: Stage, _node: Any, lasts_s: float) -> None:
    s.world.partitioned = True
    await s.clock.sleep(lasts_s)
    s.world.partitioned = False


async def freezes(s: Stage, _node: Any, lasts_s: float) -> None:
    for life in s.living:
        life.gate.freeze()
    await s.clock.sleep(lasts_s / 5)
    for life in s.living:
        life.gate.thaw()


Trouble = Callable[[Stage, Any, float], Coroutine[Any, Any, None]]
TROUBLES: tuple[Trouble, ...] = (dies, dies, hangs, hangs, stops, maintains, marks, parts, freezes)


# --- what has to be the same ------------------------------------------------------------------------


def said(row: Stored) -> tuple[str, str, str, object]:
    """Return node, what is held or would be done, and the numbers, in the words of both modes."""
    what = row.reason or "recover"
    if what == HoldReason.OBSERVE_MODE:
        what = "recover"
    numbers = {k: v for k, v in row.numbers.items() if k != "would"}
    return row.node_id, what, str(row.until_us), plain(numbers)


def before_the_first_act(live: list[Stored], watching: list[Stored]) -> Iterator[str]:
    """Yield where the two differ up to and including the first recovery."""
    for here, there in zip(live, watching, strict=False):
        if said(here) != said(there) or here.at_us != there.at_us:
            yield f"live {said(here)} at {here.at_us}, observe {said(there)} at {there.at_us}"
        if here.kind == "recover":
            return
    if len(live) != len(watching):
        yield f"{len(live)} decisions live, {len(watching)} in observe mode, and no act"


def nothing_was_done(watching: Played) -> Iterator[str]:
    if watching.acts or watching.recoveries or watching.spent:
        yield f"done in observe mode: {watching.acts}, {watching.recoveries}, {watching.spent}"
    yield from (f"{row.kind} decided" for row in watching.rows if row.kind != "hold")


def by_the_live_planner(rows: list[Stored]) -> Iterator[str]:
    """Yield what the live planner would have decided otherwise, from the same inputs."""
    for row in rows:
        again = replayed(row, RecoveryMode.RECOVER)
        numbers = dict(row.numbers)
        match again:
            case Recover():
                would = numbers.pop("would", None)
                same = row.reason == HoldReason.OBSERVE_MODE
                same &= plain([a.name for a in again.ladder]) == would
            case Hold():
                same = (row.reason, row.until_us) == (again.reason.value, again.until_us)
            case None:
                same = False
        if not same or again is None or plain(again.numbers) != plain(numbers):
            yield f"observe {row.reason} {row.numbers}, live {again}"


def by_the_observing_planner(rows: list[Stored]) -> Iterator[str]:
    """Yield where observe mode would not have told what live mode did."""
    for row in rows:
        again = replayed(row, RecoveryMode.OBSERVE)
        observed = isinstance(again, Hold) and again.reason is HoldReason.OBSERVE_MODE
        if row.kind == "recover":
            numbers = {k: v for k, v in again.numbers.items() if k != "would"} if again else None
            if not observed or plain(numbers) != plain(row.numbers):
                yield f"live recover {row.numbers}, observe {again}"
        elif row.kind == "hold" and (observed or again is None):
            yield f"live {row.reason}, observe {again}"


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_night_in_both_modes(seed: int) -> None:
    size, story, changed = night(seed)
    live = play(seed, size, story, policy(**changed))
    watching = play(seed, size, story, policy(**changed, mode="observe"))
    faults = [
        *before_the_first_act(live.rows, watching.rows),
        *nothing_was_done(watching),
        *by_the_live_planner(watching.rows),
        *by_the_observing_planner(live.rows),
    ]
    assert not faults, "\n".join([f"YAFFLE_SIM_SEED={seed}", *faults])


# --- each node up to its own first act --------------------------------------------------------------


async def one_by_one(s: Stage) -> None:
    """Each node fails alone: by the next one it is well again, healed or by itself."""
    for node in s.node_ids():
        s.world.hang(node)
        await s.clock.sleep(60)
        s.world.revive(node)
        await s.clock.sleep(20)


def until_its_act(rows: list[Stored]) -> dict[str, list[object]]:
    """Return by node what was said of it, its first recovery included and nothing after it."""
    found: dict[str, list[object]] = {}
    over: set[str] = set()
    for row in rows:
        node, what, _, numbers = said(row)
        if node in over:
            continue
        found.setdefault(node, []).append((what, numbers))
        if what == "recover":
            over.add(node)
    return found


@pytest.mark.parametrize("seed", SEEDS[:1])
def test_each_node_up_to_its_own_first_act(seed: int) -> None:
    live = play(seed, 4, one_by_one, policy())
    watching = play(seed, 4, one_by_one, policy(mode="observe"))
    here, there = until_its_act(live.rows), until_its_act(watching.rows)
    assert len(here) == 4
    assert all(said[-1][0] == "recover" for said in here.values())  # type: ignore[index]
    assert here == there
    assert not list(nothing_was_done(watching))


def test_the_comparison_sees_a_difference() -> None:
    """Planted: numbers that differ, an act too many, a hold that the other does not know."""
    size, story, changed = night(0)
    watching = play(0, size, story, policy(**changed, mode="observe"))
    rows = watching.rows
    assert rows
    other = [replace(rows[0], numbers={**rows[0].numbers, "sick": 77}), *rows[1:]]
    assert list(before_the_first_act(other, rows))
    assert list(before_the_first_act(rows[:-1], rows))
    assert list(by_the_live_planner(other))
    assert list(nothing_was_done(replace(watching, acts=["REBOOT"])))
