"""What a user wants gone goes, whatever was under way, and is never healed on its way."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import select, update
from tests.sim.stage import Stage, stage
from tests.sim.test_refusals import freeze_at
from tests.sim.test_rules import play

from yaffle.model.incident import PauseKind, PauseScope
from yaffle.model.operations import Promise, Target
from yaffle.store import catalog, incidents, orphans
from yaffle.store.tables import clusters, decisions, proofs, steps
from yaffle.store.tables import debris as debris_table
from yaffle.testing import Fault, Rule, run_virtual

RECREATE = [{"name": "RECREATE", "timeout": 60}]


async def delete(s: Stage, what: str, name: str) -> None:
    """Delete the one node, or all with their cluster."""
    if what == "node":
        await s.commands.delete_node(name, by="op")
    else:
        await s.commands.delete_cluster("web", by="op")


async def nothing_lives(s: Stage, what: str, name: str) -> None:
    """No row and no copy is left of what was deleted, now or later."""
    await s.clock.sleep(60)
    left = {n.name: n.id for n in await s.nodes()}
    assert name not in left, await s.picture()
    assert what == "node" or not left
    alive = [i for i in s.node_ids() if s.world.alive(i) and i not in left.values()]
    assert not alive, f"copies of deleted nodes run on: {alive}"


def creating(s: Stage, victim: str) -> Any:
    """Return a condition: a copy of the node is being made right now."""

    async def made() -> bool:
        s.world.settle()
        return any(
            j.kind == "CREATE" and j.node_id == victim and j.state == "running"
            for j in s.world.jobs
        )

    return made


async def soon(s: Stage, condition: Any) -> None:
    """Wait at a pace that no operation of the world escapes."""
    for _ in range(2000):
        if await condition():
            return
        await s.clock.sleep(0.1)
    raise AssertionError(f"never came to be\n{await s.picture()}")


@pytest.mark.parametrize("dies", [False, True], ids=["alone", "successor"])
@pytest.mark.parametrize("what", ["node", "cluster"])
def test_a_node_deleted_while_its_new_copy_is_made_leaves_no_copy(what: str, dies: bool) -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        name = next(n.name for n in await s.nodes() if n.id == victim)
        s.world.kill(victim)
        await soon(s, creating(s, victim))
        await delete(s, what, name)
        if dies:
            await s.living[0].kill()
            s.start()
        await nothing_lives(s, what, name)

    play(story, size=2, actions=RECREATE)


@pytest.mark.parametrize("what", ["node", "cluster"])
def test_a_node_deleted_while_it_is_first_made_leaves_no_copy(what: str) -> None:
    async def story() -> None:
        async with stage(5) as s:
            s.start()
            await s.commands.create_profile("p", s.profile.type, {"create_s": 10.0}, by="op")
            await s.commands.create_cluster("web", "p", 2, by="op")
            await soon(s, lambda: some_create(s))
            await delete(s, what, "web-1")
            await nothing_lives(s, what, "web-1")

    run_virtual(story, seed=5, cpu_s=60)


async def some_create(s: Stage) -> bool:
    """Whether both copies are being made."""
    return len(s.world.jobs) == 2


def test_a_copy_whose_making_got_no_answer_is_waited_for() -> None:
    """CREATE arrives 20 s late, when its node has long been deleted."""

    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        name = next(n.name for n in await s.nodes() if n.id == victim)
        s.plan.rules.append(Rule(fault=Fault.LATE, call="submit:CREATE", delay_s=20, times=1))
        s.world.kill(victim)
        before = len(s.plan.calls)

        async def submitted() -> bool:
            return any(c == "submit:CREATE" for _, c, _ in s.plan.calls[before:])

        await soon(s, submitted)
        await delete(s, "node", name)
        await s.clock.sleep(60)
        await nothing_lives(s, "node", name)

    play(story, size=2, actions=RECREATE)


@pytest.mark.parametrize("confirms", [True, False], ids=["confirms", "claims"])
def test_a_deletion_that_fails_is_tried_again_until_it_is_done(confirms: bool) -> None:
    async def story(s: Stage) -> None:
        if not confirms:
            s.living[0].ctx.drivers.profiles[s.profile.type].promises = frozenset(  # type: ignore[misc]
                {Promise.DEDUPLICATES}
            )
        victim = next(n.id for n in await s.nodes() if n.name == "web-1")
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:DELETE", times=4))
        before = len(s.plan.calls)
        s.world.hang(victim)
        await s.commands.delete_node(victim, by="op")
        for _ in range(100):
            row = await s.store.read(lambda c: catalog.node(c, victim))
            if row is None:
                break
            assert row.status == "DELETING", row
            (watch,) = s.living[0].engine.watches.values()
            assert len(calls(s, before)) < 2 or victim not in watch.memories
            await s.clock.sleep(1)
        assert not s.world.alive(victim)
        times = calls(s, before)
        gaps = [round(b - a) for a, b in pairwise(times)]
        assert len(times) == 5
        assert all(low <= gap <= low + 8 for low, gap in zip((5, 10, 20, 40), gaps, strict=True))
        heals = {c for _, c, _ in s.plan.calls[before:]} & {"fence", "submit:CREATE"}
        assert not heals, "healed on its way out"

    play(story, size=2)


def calls(s: Stage, before: int) -> list[float]:
    """Return when a deletion was submitted."""
    return [at for at, call, _ in s.plan.calls[before:] if call == "submit:DELETE"]


def test_a_put_off_deletion_outlasts_a_clock_set_back() -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:DELETE", times=1))
        await s.commands.delete_node(victim, by="op")
        await s.clock.sleep(3)
        s.clock.step(-3600)
        await s.clock.sleep(90)
        assert not s.world.alive(victim)

    play(story, size=2)


def test_a_cluster_being_deleted_is_not_healed_and_goes_with_its_last_node() -> None:
    async def story(s: Stage) -> None:
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:DELETE", node="web-1", times=3))
        before = len(s.plan.calls)
        decided = await s.store.read(lambda c: len(c.execute(select(decisions)).all()))
        await s.commands.delete_cluster("web", by="op")
        await s.clock.sleep(12)
        (row,) = await s.nodes()
        found = await s.store.read(lambda c: catalog.find_cluster(c, "web"))
        assert (row.status, found.status) == ("DELETING", "DELETING")
        s.world.hang(row.id)
        await s.clock.sleep(60)
        assert not await s.store.read(lambda c: c.execute(select(clusters.c.id)).all())
        assert not s.world.alive(row.id)
        assert not {c for _, c, _ in s.plan.calls[before:]} & {"fence", "submit:REBOOT"}
        assert decided == await s.store.read(lambda c: len(c.execute(select(decisions)).all()))

    play(story, size=3)


def test_a_deletion_whose_journal_is_damaged_begins_anew() -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        s.plan.rules.append(Rule(fault=Fault.HANG, call="*:DELETE", times=3))
        await s.commands.delete_node(victim, by="op")
        await s.clock.sleep(2)
        await s.living[0].kill()
        await s.store.write(
            lambda c: c.execute(
                update(steps).where(steps.c.stage == "delete").values(result="bogus", phase="ended")
            )
        )
        s.start()
        await s.clock.sleep(3)
        row = await s.store.read(lambda c: catalog.node(c, victim))
        assert row is None or row.status == "DELETING"
        await s.clock.sleep(30)
        assert not s.world.alive(victim)
        assert victim not in {n.id for n in await s.nodes()}

    play(story, size=2)


@pytest.mark.parametrize("held", [True, False], ids=["held", "recovering"])
def test_deleting_a_node_ends_its_incident(held: bool) -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        if held:
            await s.commands.pause(
                PauseKind.STOP, PauseScope.ALL, "", owner="op", reason="x", for_s=None
            )
        else:
            s.plan.rules.append(Rule(fault=Fault.HANG, call="*:REBOOT"))
        s.world.hang(victim)
        await s.clock.sleep(25)
        await s.commands.delete_node(victim, by="op")
        await s.clock.sleep(60)
        known = await s.store.read(
            lambda c: incidents.listed(c, open_only=False, node_id=victim, limit=9)
        )
        assert [i.state for i in known] == ["superseded"]
        assert [m.topic for m in s.notifier.received][-1] == "incident.superseded"
        assert len([m for m in s.notifier.received if m.topic == "incident.superseded"]) == 1

    play(story, size=3)


def test_deleting_a_node_whose_recovery_just_failed_ends_its_incident() -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:REBOOT"))
        freeze_at(
            s, "before StepRunner._advance.<lambda>", 3
        )  # look and act are written, the end is not
        s.world.hang(victim)
        await soon(s, lambda: frozen(s))
        await s.commands.delete_node(victim, by="op")
        s.living[0].gate.thaw()
        await s.clock.sleep(60)
        known = await s.store.read(
            lambda c: incidents.listed(c, open_only=False, node_id=victim, limit=9)
        )
        assert [i.state for i in known] == ["superseded"]
        assert [m.topic for m in s.notifier.received][-1] == "incident.superseded"

    play(story, size=3, actions=[{"name": "REBOOT", "timeout": 30}])


async def frozen(s: Stage) -> bool:
    """Whether the engine stands still."""
    return s.living[0].gate.frozen


# --- what a recovery went past -------------------------------------------------------------------


async def leave_behind(s: Stage) -> str:
    """Heal a node past its old copy by written consent; return the old copy's id."""
    victim = s.node_ids()[0]
    old = s.world.alive(victim)[0].physical_id
    s.plan.rules.append(Rule(fault=Fault.FAIL, call="fence"))
    s.plan.rules.append(Rule(fault=Fault.HANG, call="*:DELETE"))
    s.world.hang(victim)
    await soon(s, creating(s, victim))
    return old


CONSENT = {"actions": RECREATE, "node_force_recreate": True, "node_delete_timeout": 5}


@pytest.mark.parametrize(
    "kind", [PauseKind.STOP, PauseKind.MAINTENANCE], ids=["stop", "maintenance"]
)
def test_remains_are_not_swept_while_an_operator_says_stop(kind: PauseKind) -> None:
    async def story(s: Stage) -> None:
        old = await leave_behind(s)
        victim = s.node_ids()[0]
        scope = PauseScope.ALL if kind is PauseKind.STOP else PauseScope.NODE
        ident = await s.commands.pause(
            kind, scope, "" if scope is PauseScope.ALL else victim,
            owner="op", reason="x", for_s=None,
        )  # fmt: skip
        before = len(s.plan.calls)
        s.plan.rules.clear()
        await s.clock.sleep(60)
        assert not calls(s, before)
        await s.commands.lift(ident, by="op")
        await s.clock.sleep(60)
        assert old not in {c.physical_id for c in s.world.alive(victim)}
        assert len(s.world.alive(victim)) == 1

    play(story, size=3, **CONSENT)


def test_consent_reaches_a_backend_that_makes_no_second_copy_unasked() -> None:
    async def story(s: Stage) -> None:
        old = await leave_behind(s)
        victim = s.node_ids()[0]
        await s.until(s.all_well, 120, "another copy was made")
        assert old in {c.physical_id for c in s.world.alive(victim)}
        query = select(proofs.c.physical_id).where(proofs.c.waived)
        assert await s.store.read(lambda c: set(c.execute(query).scalars())) == {old}
        s.plan.rules.clear()
        await s.clock.sleep(60)
        assert [c.physical_id != old for c in s.world.alive(victim)] == [True]

    play(story, size=3, careful=True, **CONSENT)


def test_the_sweeper_spares_the_present_copy_and_goes_on_with_the_others() -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        row = next(n for n in await s.nodes() if n.id == victim)

        def remains(physical_id: str) -> Target:
            return Target(
                node_id=victim, name=row.name, physical_id=physical_id, cluster_id=row.cluster_id,
                profile_type=s.profile.type, spec=dict(s.profile.validate({})),
            )  # fmt: skip

        def work(conn: Any) -> None:
            now_us = s.clock.now_us()
            for number in range(12):
                orphans.add(conn, s.new_id(), remains(row.physical_id), now_us + number)
                broken = s.new_id()
                orphans.add(conn, broken, remains(f"broken/{number}"), now_us + number)
                conn.execute(
                    update(debris_table)
                    .where(debris_table.c.id == broken)
                    .values(target={"physical_id": 7})
                )
            orphans.add(conn, s.new_id(), remains("older/1"), now_us + 100)

        before = len(s.plan.calls)
        await s.store.write(work)
        await s.clock.sleep(60)
        assert s.world.alive(victim)[0].physical_id == row.physical_id
        assert len(calls(s, before)) == 1, "only the one that is neither present nor unreadable"

    play(story, size=2)
