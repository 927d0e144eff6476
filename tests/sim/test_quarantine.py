"""A host that servers were moved off and that comes back: nobody calls it well before they are gone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy import select, update
from tests.sim.hosted import HYPERVISORS, URL, Machines, Returning, equip, moving
from tests.sim.stage import Stage, stage

from yaffle.core.recovery.host_quarantine import CAUSE, Do
from yaffle.engine.steps.host_quarantine import Kept, counted, kept_of
from yaffle.model.operations import OldCopy, Progress, ProgressState, Promise
from yaffle.store import catalog
from yaffle.store.rows import IncidentRow, load
from yaffle.store.tables import incidents as rows
from yaffle.store.tables import outbox, steps
from yaffle.testing import run_virtual

Story = Callable[[Stage, Machines], Awaitable[None]]


class Powerless:
    """A fencer that ends guests, and knows nothing of the host's power."""

    promises: frozenset[Promise] = frozenset()

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def play(
    story: Story,
    document: dict[str, Any] | None = None,
    *,
    placed: Any = Returning,
    powered: bool = True,
) -> None:
    async def scene() -> None:
        async with stage(11) as s:
            machines = Machines(s, ("cmp1", "cmp2", "cmp3", "spare"))
            ctx = s.start().ctx
            equip(machines, ctx, s.ctx, placed=placed)
            if not powered:
                fencers: Any = ctx.drivers.fencers
                fencers["COMPUTE"] = Powerless(fencers["COMPUTE"])
            await s.build(9, document or moving(URL, HYPERVISORS))
            await story(s, machines)

    run_virtual(scene, seed=11, cpu_s=120)


async def quarantines(s: Stage) -> list[tuple[IncidentRow, Kept]]:
    query = select(rows).where(rows.c.cause == CAUSE).order_by(rows.c.opened_us)
    found = await s.store.read(lambda conn: conn.execute(query).all())
    kept = [(row, kept_of(row)) for row in (load(IncidentRow, r) for r in found)]
    return [(row, one) for row, one in kept if one is not None]


async def told(s: Stage) -> list[str]:
    """Return the topics of what was told of quarantines."""
    query = select(outbox.c.topic, outbox.c.body).order_by(outbox.c.seq)
    found = await s.store.read(lambda conn: conn.execute(query).all())
    return [r.topic for r in found if r.body.get("cause") == CAUSE]


async def moved(s: Stage, machines: Machines, lost: str = "cmp1") -> list[Any]:
    """Let a machine die and its nodes be moved; return which."""
    on = machines.on(lost)
    machines.die(lost)
    await s.clock.sleep(10)
    await s.until(s.all_well, 400, "all of them were moved")
    return on


async def is_over(s: Stage) -> bool:
    return all(row.open_key is None for row, _ in await quarantines(s))


async def doing(s: Stage, do: Do) -> None:
    async def there() -> bool:
        return [kept.do for _, kept in await quarantines(s)] == [do]

    await s.until(there, 120, f"it is known: {do}")


def test_what_was_moved_off_keeps_its_host_in_quarantine_until_it_is_gone() -> None:
    async def story(s: Stage, machines: Machines) -> None:
        lost = await moved(s, machines)
        ((row, kept),) = await quarantines(s)
        assert (row.node_name, row.state) == ("host cmp1", "held")
        assert {c.node_id for c in kept.copies} == set(lost)
        await s.clock.sleep(60)
        assert (await quarantines(s))[0][1].do is Do.WAIT
        # It is back, with all its guests, and the backend keeps it out.
        machines.back("cmp1")
        await doing(s, Do.KEEP_OUT)
        assert await s.all_well()
        # Somebody has let it in too early: that it is up is not that it is well.
        machines.back("cmp1", barred=False)
        await doing(s, Do.DANGER)
        await s.clock.sleep(120)
        ((row, kept),) = await quarantines(s)
        assert row.open_key is not None
        assert row.reason.startswith("DANGER: host cmp1")
        assert await told(s) == ["incident.held"]
        machines.clean("cmp1")
        await s.until(lambda: is_over(s), 60, "nothing is left there")
        ((row, kept),) = await quarantines(s)
        assert (row.state, kept.do) == ("recovered", Do.OVER)
        assert await told(s) == ["incident.held", "incident.recovered"]

    play(story)


def test_a_successor_knows_of_it() -> None:
    async def story(s: Stage, machines: Machines) -> None:
        await moved(s, machines)
        await s.lives[0].kill()
        machines.back("cmp1")
        equip(machines, s.start().ctx, placed=Returning)
        await doing(s, Do.KEEP_OUT)
        machines.clean("cmp1")
        await s.until(lambda: is_over(s), 60, "nothing is left there")
        assert await told(s) == ["incident.held", "incident.recovered"]

    play(story)


def test_a_backend_that_does_not_answer_ends_nothing() -> None:
    async def story(s: Stage, machines: Machines) -> None:
        await moved(s, machines)
        machines.back("cmp1", barred=False)
        machines.speechless.add("cmp1")
        await s.clock.sleep(120)
        ((row, kept),) = await quarantines(s)
        assert (row.open_key is not None, kept.do) == (True, Do.WAIT)
        machines.speechless.clear()
        machines.clean("cmp1")
        await s.until(lambda: is_over(s), 60, "nothing is left there")

    play(story)


def test_where_nobody_can_tell_a_person_has_the_word() -> None:
    async def story(s: Stage, machines: Machines) -> None:
        await moved(s, machines)
        machines.clean("cmp1", OldCopy.UNTOLD)
        machines.back("cmp1")
        await doing(s, Do.KEEP_OUT)
        await s.clock.sleep(120)
        ((row, _),) = await quarantines(s)
        assert row.open_key is not None
        assert "acknowledge this incident" in row.reason
        assert (await s.store.read(counted))[Do.KEEP_OUT] == 1
        await s.commands.acknowledge(row.id, by="op")
        ((row, _),) = await quarantines(s)
        assert (row.state, row.open_key) == ("superseded", None)
        await s.clock.sleep(60)
        assert await told(s) == ["incident.held", "incident.superseded"]
        assert not any((await s.store.read(counted)).values())

    play(story)


def test_a_host_that_dies_again_is_in_the_same_quarantine() -> None:
    async def story(s: Stage, machines: Machines) -> None:
        first = await moved(s, machines)
        machines.back("cmp1", barred=False)
        for ident in first[:2]:
            machines.place[ident] = "cmp1"
            await _on(s, ident, "cmp1")
        machines.clean("cmp1", OldCopy.UNTOLD)
        await doing(s, Do.DANGER)
        again = await moved(s, machines)
        assert again == sorted(first[:2])
        ((_, kept),) = await quarantines(s)
        assert {c.node_id for c in kept.copies} == set(first)
        assert await told(s) == ["incident.held"]

    play(story)


async def _on(s: Stage, ident: Any, host: str) -> None:
    attributes = {"node_ip": "192.0.2.1", "host": host}
    now_us = s.clock.now_us()
    await s.store.write(lambda c: catalog.set_node(c, ident, now_us, attributes=attributes))


def test_nothing_is_moved_to_a_host_in_quarantine() -> None:
    """The policy names the very host: once the first is moved off it, the others are not sent there."""
    named = [{"name": "EVACUATE", "params": {"host": "cmp1"}, "timeout": 40}]
    one = {"max_unhealthy": "40%", "max_in_flight": 1}

    async def story(s: Stage, machines: Machines) -> None:
        machines.die("cmp1")
        await s.clock.sleep(60)
        query = select(steps.c.result, steps.c.detail).where(steps.c.stage == "act")
        found = await s.store.read(lambda c: c.execute(query).all())
        assert [r.result for r in found].count("done") == 1
        said = {r.detail for r in found if r.result == "failed"}
        assert len(said) == 1
        assert "host cmp1 is in quarantine" in said.pop()
        assert len(machines.on("cmp1")) == 2

    play(story, moving(URL, HYPERVISORS, actions=named, limits=one))


# --- moves that may never have been ---------------------------------------------------------------


class Slow(Returning):
    """The move is never heard of again; `comes`: whether it has taken place all the same."""

    comes = True

    async def submit(self, op: Any, *, operation_id: Any, deadline_s: float) -> Progress:
        if op.kind == "EVACUATE":
            if self.comes:
                machines = self._machines
                left = machines.host(op.target.node_id)
                machines.old.setdefault(left, {})[op.target.physical_id] = OldCopy.LEFT
            return Progress(state=ProgressState.RUNNING, detail="under way")
        return await super().submit(op, operation_id=operation_id, deadline_s=deadline_s)

    async def poll(self, op: Any, *, operation_id: Any, deadline_s: float) -> Progress:
        if op.kind == "EVACUATE":
            return Progress(state=ProgressState.RUNNING, detail="under way")
        return await super().poll(op, operation_id=operation_id, deadline_s=deadline_s)


class Mute(Slow):
    """As Slow, and nobody can even be asked."""

    async def submit(self, op: Any, *, operation_id: Any, deadline_s: float) -> Progress:
        done = await super().submit(op, operation_id=operation_id, deadline_s=deadline_s)
        if op.kind == "EVACUATE":
            raise OSError("connection reset")
        return done

    async def poll(self, op: Any, *, operation_id: Any, deadline_s: float) -> Progress:
        if op.kind == "EVACUATE":
            raise OSError("connection reset")
        return await super().poll(op, operation_id=operation_id, deadline_s=deadline_s)


def test_a_move_that_could_not_be_asked_about_may_have_been_one() -> None:
    async def story(s: Stage, machines: Machines) -> None:
        machines.die("cmp1")
        await s.clock.sleep(120)
        query = select(steps.c.result).where(steps.c.stage == "act")
        found = await s.store.read(lambda c: c.execute(query).scalars().all())
        assert "unclear" in found
        ((_, kept),) = await quarantines(s)
        assert kept.copies

    play(story, placed=Mute)


def test_a_record_that_cannot_be_read_is_not_written_over() -> None:
    async def story(s: Stage, machines: Machines) -> None:
        first = await moved(s, machines)
        machines.back("cmp1", barred=False)
        for ident in first[:2]:
            machines.place[ident] = "cmp1"
            await _on(s, ident, "cmp1")
        junk = {"copies": [{"physical_id": "x", "known": "as a newer program says"}]}
        await s.store.write(
            lambda c: c.execute(update(rows).where(rows.c.cause == CAUSE).values(hold_numbers=junk))
        )
        await moved(s, machines)
        query = select(rows.c.hold_numbers, rows.c.open_key).where(rows.c.cause == CAUSE)
        (row,) = await s.store.read(lambda c: c.execute(query).all())
        assert row.hold_numbers == junk
        assert row.open_key, "and its host is kept out until a person has looked"

    play(story)


class NeverMoved(Slow):
    comes = False


def test_a_move_that_came_too_late_for_us_is_one_all_the_same() -> None:
    async def story(s: Stage, machines: Machines) -> None:
        machines.die("cmp1")
        await s.clock.sleep(120)
        ((row, kept),) = await quarantines(s)
        assert (row.state, bool(kept.copies)) == ("held", True)
        assert await told(s) == ["incident.held"]

    play(story, placed=Slow)


def test_of_a_move_that_never_was_nobody_hears() -> None:
    async def story(s: Stage, machines: Machines) -> None:
        machines.die("cmp1")
        await s.clock.sleep(90)
        found = await quarantines(s)
        assert found
        assert {row.state for row, _ in found} <= {"superseded", "open"}
        assert await told(s) == []

    play(story, placed=NeverMoved)


# --- letting a host in ----------------------------------------------------------------------------


def test_yaffle_lets_in_what_a_power_switch_had_proved_to_be_off() -> None:
    async def story(s: Stage, machines: Machines) -> None:
        await moved(s, machines)
        ((_, kept),) = await quarantines(s)
        assert {c.off for c in kept.copies} == {True}
        machines.back("cmp1")
        await doing(s, Do.KEEP_OUT)
        assert "cmp1" in machines.barred
        machines.clean("cmp1")
        await s.until(lambda: is_over(s), 60, "nothing is left there")
        assert "cmp1" not in machines.barred
        assert (await quarantines(s))[0][0].reason.endswith("let in again")

    play(story)


def test_what_nobody_saw_off_a_person_lets_in() -> None:
    async def story(s: Stage, machines: Machines) -> None:
        await moved(s, machines)
        machines.back("cmp1")
        await doing(s, Do.KEEP_OUT)
        machines.clean("cmp1")
        await s.until(lambda: is_over(s), 60, "nothing is left there")
        assert "cmp1" in machines.barred
        assert "`let cmp1 in`" in (await quarantines(s))[0][0].reason

    play(story, powered=False)


# --- an old word ----------------------------------------------------------------------------------


class JustBack(Returning):
    """The machine comes back after the word of its end was heard, and before anything is moved."""

    async def submit(self, op: Any, *, operation_id: Any, deadline_s: float) -> Progress:
        if op.kind == "EVACUATE":
            self._machines.back(self._machines.host(op.target.node_id), barred=False)
        return await super().submit(op, operation_id=operation_id, deadline_s=deadline_s)


@pytest.mark.parametrize(
    "modes",
    [
        pytest.param([URL, HYPERVISORS], id="a mode asks for hosts"),
        pytest.param([URL], id="the profile is asked, and its word is kept for a while"),
    ],
)
def test_a_host_that_came_back_since_its_word_was_heard_is_left_alone(modes: Any) -> None:
    """The word was old; the backend refuses the move, its nodes are started where they are."""

    async def story(s: Stage, machines: Machines) -> None:
        on = machines.on("cmp1")
        machines.die("cmp1")
        await s.clock.sleep(10)
        await s.until(s.all_well, 400, "they run where they were")
        query = select(steps.c.operation, steps.c.result, steps.c.detail)
        acts = await s.store.read(lambda c: c.execute(query.where(steps.c.stage == "act")).all())
        moves = [a for a in acts if a.operation == "EVACUATE"]
        assert moves
        assert {(a.result, a.detail) for a in moves} == {("failed", "its host is up")}
        assert {a.operation for a in acts if a.result == "done"} == {"REBOOT"}
        assert machines.on("cmp1") == on
        # Nothing was moved: there is no old copy, and no host to be kept out.
        assert await quarantines(s) == []

    play(story, moving(*modes), placed=JustBack)
