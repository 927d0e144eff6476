"""An engine whose own disk is full leaves the healing to one that has room, for as long as one lives."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select
from tests.sim.stage import Life, Stage, policy, stage
from tests.sim.test_watch_assignment import LEASE_S, SEEN_S, holders

from yaffle.engine.runtime.disk_space import DiskSpace
from yaffle.model.operations import Operation, Outlook, Prospect
from yaffle.store.tables import actions, engines
from yaffle.testing import ForeseeingProfile, run_virtual

FULL = "64 KiB cannot be written: No space left on device"


class Disk(DiskSpace):
    """One engine's; it is tried when the engine asks, as a real one is."""

    full = False
    found = ""

    def lacks(self, *, here: bool) -> str:
        return self.found

    async def look(self) -> None:
        self.found = FULL if self.full else ""


class Below(ForeseeingProfile):
    """Keeps its records on the disk of the engine that asks it."""

    disk: Disk

    async def foresee(self, op: Operation, *, deadline_s: float) -> Prospect:
        if self.disk.full:
            return Prospect(outlook=Outlook.UNKNOWN, detail=FULL)
        return await super().foresee(op, deadline_s=deadline_s)


def start(s: Stage) -> tuple[Life, Disk]:
    s.room = disk = Disk()
    s.profile = profile = Below(s.world, s.plan)
    profile.disk = disk
    return s.start(), disk


RECREATE = {"actions": [{"name": "RECREATE", "timeout": 60}]}


def play(story: Any, *, full: int) -> None:
    async def main() -> None:
        async with stage(9, alone=False) as s:
            lives = [start(s) for _ in range(2)]
            for n in range(2):
                await s.build(2, policy(**RECREATE), name=f"c{n}")
            await s.clock.sleep(2 * LEASE_S)
            assert len(set((await holders(s)).values())) == 2, "each watches something"
            for _, disk in lives[:full]:
                disk.full = True
            await story(s, lives)

    run_virtual(main, seed=9, cpu_s=60)


async def carried_out(s: Stage, since_us: int) -> list[tuple[int, str]]:
    """Which engine (by its number) tried which recovery, since then, and how that ended."""
    query = (
        select(engines.c.pid, actions.c.status)
        .join(actions, actions.c.owner == engines.c.id)
        .where(actions.c.action == "NODE_RECOVER", actions.c.created_us >= since_us)
        .order_by(actions.c.created_us)
    )
    rows = await s.store.read(lambda c: c.execute(query).all())
    return [(row.pid, row.status) for row in rows]


@pytest.mark.parametrize("known_s", [None, 0.0, 150.0])
def test_it_is_healed_by_the_one_that_has_room(known_s: float | None) -> None:
    """`known_s`: how long ago the engine has found out, which it does within seconds.

    What it said of its clusters ends after two minutes, and is said again of those that it is given.
    """

    async def story(s: Stage, lives: Any) -> None:
        (life, _), (other, _) = lives
        if known_s is not None:
            await s.until(lambda: left_to(s, other), 2 * SEEN_S + 6, "its clusters are another's")
            await s.clock.sleep(known_s)
        began_us = s.clock.now_us()
        for victim in s.node_ids():
            s.world.kill(victim)
        await s.until(s.all_well, 90, "healed")
        tried = await carried_out(s, began_us)
        mine = [ended for pid, ended in tried if pid == s.lives.index(life)]
        # What it was about when the disk filled up is one try, which is given back.
        assert len(mine) <= (2 if known_s is None else 0), tried
        assert all(n.attempts <= 1 for n in await s.nodes())
        assert life in s.living

    play(story, full=1)


async def left_to(s: Stage, other: Life) -> bool:
    return set((await holders(s)).values()) == {other}


def test_where_all_are_full_nothing_is_passed_round_and_nothing_given_up() -> None:
    async def story(s: Stage, lives: Any) -> None:
        await s.clock.sleep(60)
        before = await holders(s)
        moves = 0
        for victim in s.node_ids():
            s.world.hang(victim)
        s.world.acts.clear()
        for _ in range(60):
            await s.clock.sleep(5)
            moves += before != (before := await holders(s))
        assert not s.world.acts, "nothing can be made again"
        assert moves <= 4, "watches are passed back and forth"
        for _, disk in lives:
            disk.full = False
        await s.until(s.all_well, 120, "there is room again")

    play(story, full=2)
