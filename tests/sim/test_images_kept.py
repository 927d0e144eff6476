"""Images that recoveries have taken: the newest are kept, and none outlives its node and its use."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select, update
from tests.sim.stage import Stage
from tests.sim.test_rules import play
from tests.sim.test_snapshots import slow

from yaffle.model.incident import PauseKind, PauseScope
from yaffle.store import actions, disk_images, orphans
from yaffle.store.tables import debris as debris_table
from yaffle.testing import Fault, Rule

TAKE = {"take": True, "restore": False, "timeout": 20}
RECREATE = [{"name": "RECREATE", "timeout": 60}]


async def heal(s: Stage, victim: Any) -> None:
    """Let the node die and be healed, and forget its tries."""
    s.world.kill(victim)
    await s.clock.sleep(15)
    await s.until(s.all_well, 120, "healed")
    await s.clock.sleep(70)


def names(s: Stage, victim: Any) -> list[str]:
    return [job.image for job in s.world.images(victim)]


async def gone(s: Stage, victim: Any) -> None:
    """Wait until the node is no more."""
    while victim in [row.id for row in await s.nodes()]:
        await s.clock.sleep(0.5)


def test_the_newest_are_kept() -> None:
    async def story(s: Stage) -> None:
        victim, other = s.node_ids()[:2]
        await heal(s, other)
        for _ in range(4):
            await heal(s, victim)
        await s.clock.sleep(60)
        taken = [a for a in s.world.acts if a.kind == "SNAPSHOT" and a.node_id == victim]
        assert len(taken) == 4
        newest = sorted((job.due_s for job in s.world.images(victim)), reverse=True)
        assert newest == [act.at_s for act in reversed(taken)][:2]
        assert len(names(s, other)) == 1
        remains = await s.store.read(lambda c: orphans.due(c, 2**63 - 1, 100))
        assert not remains, "it is no copy that somebody has to go on deleting"

    play(story, actions=RECREATE, snapshot=TAKE)


@pytest.mark.parametrize("killed", [False, True], ids=["", "killed"])
def test_they_go_with_their_node_once_its_copy_is_gone(killed: bool) -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        await heal(s, victim)
        assert names(s, victim)
        await s.commands.delete_node(victim, by="op")
        while s.world.alive(victim):
            await s.clock.sleep(0.1)
            assert names(s, victim), "not before its copy"
        if killed:
            await s.living[0].kill()
            assert names(s, victim)
            s.start()
        await gone(s, victim)
        await s.clock.sleep(60)
        assert not names(s, victim)
        query = select(debris_table.c.done_us).where(debris_table.c.node_id == victim)
        assert all(await s.store.read(lambda c: c.execute(query).scalars().all())), "it is over"

    play(story, actions=RECREATE, snapshot=TAKE)


def test_one_that_nobody_waited_for_goes_with_its_node() -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        slow(s, 1.2)
        s.world.hang(victim)
        while not s.world.taking(victim):
            await s.clock.sleep(0.1)
        await s.commands.delete_node(victim, by="op")
        while s.world.taking(victim):
            await s.clock.sleep(0.1)
        assert names(s, victim), "it is there, and the recovery that wanted it has ended before"
        await gone(s, victim)
        await s.clock.sleep(200)
        assert not names(s, victim)

    play(story, actions=RECREATE, snapshot={**TAKE, "timeout": 100})


def test_a_failure_that_is_not_over_keeps_what_it_may_boot_from() -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        await heal(s, victim)
        await heal(s, victim)
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="fence"))
        before = names(s, victim)
        s.world.hang(victim)
        while names(s, victim) == before:
            await s.clock.sleep(0.5)
        while await s.store.read(lambda c: actions.unfinished(c, node_id=victim)):
            await s.clock.sleep(0.5)
        (newest, *_) = names(s, victim)
        due = await s.store.read(lambda c: disk_images.due(c, 2**63 - 1, 100))
        assert [one.spared for one in due if one.target.node_id == victim] == [[newest]]
        s.plan.rules.clear()

    play(story, actions=RECREATE, snapshot={**TAKE, "restore": True})


def test_whoever_says_stop_stops_this_too() -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        await heal(s, victim)
        kind, scope = PauseKind.STOP, PauseScope.ALL
        await s.commands.pause(kind, scope, "", owner="op", reason="x", for_s=None)
        await s.commands.delete_node(victim, by="op")
        await gone(s, victim)
        await s.clock.sleep(120)
        assert names(s, victim)

    play(story, actions=RECREATE, snapshot=TAKE)


def test_one_row_that_cannot_be_read_keeps_no_other_from_being_seen_to() -> None:
    async def story(s: Stage) -> None:
        broken, victim = s.node_ids()[:2]
        for one in (broken, victim):
            await heal(s, one)
        mine = debris_table.c.node_id == broken
        wrong = update(debris_table).where(mine).values(target={"node_id": 7}, next_us=0)
        await s.store.write(lambda conn: conn.execute(wrong) and None)
        await s.commands.delete_node(victim, by="op")
        await gone(s, victim)
        await s.clock.sleep(30)
        assert not names(s, victim)

    play(story, actions=RECREATE, snapshot=TAKE)


def test_an_image_that_is_asked_for_during_a_look_is_looked_at_too() -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        await heal(s, victim)
        (life,) = s.living
        await life.kill()

        def work(conn: Any) -> list[str]:
            now_us = s.clock.now_us()
            (due,) = disk_images.due(conn, 2**63 - 1, 100)
            disk_images.note(conn, due.target, now_us, now_us)
            disk_images.looked(conn, due, "", now_us)
            return [one.id for one in disk_images.due(conn, now_us, 100)]

        assert await s.store.write(work) == [victim]

    play(story, actions=RECREATE, snapshot=TAKE)
