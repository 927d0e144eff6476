"""After the storm: what must be true once faults have ceased, with a bound on each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select
from tests.metric_labels import sentences
from tests.sim.stage import SETTINGS

from yaffle.core.planning.pauses import covering
from yaffle.errors import YaffleError
from yaffle.model.incident import PauseKind
from yaffle.store import actions, incidents, pauses
from yaffle.store.tables import actions as actions_table
from yaffle.store.tables import engines, outbox, steps

if TYPE_CHECKING:
    from tests.sim.stage import Stage

LADDER_S = 3 * (60 + 60 + 30 + 20)
"""Every rung, its fence and its deletion at their longest, for the longest of our ladders."""
SETTLE_S = 6 * 2 * LADDER_S
"""Three attempts of two waves, with their rests."""


async def is_good(s: Stage) -> None:
    """Quiet first, then an operator clears what needs a person, then everything is well."""
    await s.until(lambda: _quiet(s), SETTLE_S, "no recovery is under way and every hold is true")
    for ident in s.node_ids() if not s.condemns_hung else ():
        s.world.revive(ident)
    await _clear(s)
    await s.until(lambda: _cleared_and_well(s), SETTLE_S, "every node is well")
    await s.until(lambda: _drained(s), 700, "all news was delivered")
    await _nothing_left_over(s)
    await _one_more(s)
    await _nothing_leaks(s)
    assert [text for life in s.lives for text in sentences(life.ctx.metrics.registry)] == []


async def _quiet(s: Stage) -> bool:
    """Every node is well, or held for a reason that is true; no action is left without an owner."""
    now_us = s.clock.now_us()

    def work(conn: Any) -> Any:
        return (
            actions.unfinished(conn),
            pauses.in_force(conn, now_us),
            {n.id: incidents.open_of(conn, n.id) for n in rows},
        )

    rows = await s.nodes()
    active, paused, opened = await s.store.read(work)
    if any(a.status in actions.ACTIVE for a in active):
        return False
    sick = [n for n in rows if n.health != "healthy"]
    for n in sick:
        if n.health != "unhealthy":
            return False
        held = opened[n.id]
        if n.exhausted_us is not None:
            continue
        if held is None or held.hold_reason is None:
            return False
        true = {
            "storm": len(sick) > 1,
            "needs-human": n.exhausted_us is not None,
            "maintenance": bool(
                covering(paused, PauseKind.MAINTENANCE, n.id, n.cluster_id, now_us)
            ),
            "stopped": bool(covering(paused, PauseKind.STOP, n.id, n.cluster_id, now_us)),
        }.get(held.hold_reason, False)
        if not true:
            return False
    return True


async def _clear(s: Stage) -> None:
    """The operator comes to work: lifts what is paused, acknowledges, releases the guard."""
    await s.commands.lift_stop(by="op")
    for pause in await s.store.read(lambda c: pauses.in_force(c, s.clock.now_us())):
        await s.commands.lift(pause.id, by="op")
    await _attend(s)


async def _attend(s: Stage) -> None:
    rows = await s.nodes()
    for n in rows:
        if n.mark_reason is not None and n.health == "healthy":
            await s.commands.unmark(n.id, reason="done", by="op")
        if n.exhausted_us is not None:
            last = await s.store.read(lambda c, i=n.id: incidents.last_of(c, i))
            await s.commands.acknowledge(last.id, by="op")
        if n.status == "ERROR" and n.health == "healthy":
            await s.commands.refresh(n.cluster_id)
    if any(n.health == "unhealthy" for n in rows):
        try:
            await s.commands.release("web", by="op", reason="go on", for_s=600)
        except YaffleError:
            return


async def _cleared_and_well(s: Stage) -> bool:
    if await s.all_well():
        return True
    if int(s.clock.monotonic_s()) % 60 == 0:
        await _attend(s)
    return False


async def _drained(s: Stage) -> bool:
    count = select(func.count()).where(outbox.c.state == "pending")
    return bool(await s.store.read(lambda c: c.execute(count).scalar_one() == 0))


async def _nothing_left_over(s: Stage) -> None:
    """No orphan of any kind."""

    def work(conn: Any) -> tuple[list[Any], list[Any], list[Any]]:
        alive = select(engines.c.id).where(engines.c.stopped_us.is_(None))
        orphans = select(actions_table.c.id).where(
            actions_table.c.status == "RUNNING", actions_table.c.owner.not_in(alive)
        )
        half = (
            select(steps.c.action_id, steps.c.stage)
            .join(actions_table, actions_table.c.id == steps.c.action_id)
            .where(steps.c.phase != "ended", actions_table.c.status != "RUNNING")
        )
        still = incidents.listed(conn, open_only=True, node_id=None, limit=100)
        return list(conn.execute(orphans)), list(conn.execute(half)), list(still)

    orphans, half, still = await s.store.read(work)
    assert not orphans, f"actions without an owner: {orphans}"
    assert not half, f"steps that no end was written for: {half}"
    assert not still, f"incidents that are open though all is well: {still}"
    for n in await s.nodes():
        alive = s.world.alive(n.id)
        assert len(alive) == 1, f"{n.name} has {len(alive)} copies"
    known = {n.id for n in await s.nodes()}
    for ident in s.node_ids():
        assert ident in known or not s.world.alive(ident), f"deleted node {ident} still runs"


async def _one_more(s: Stage) -> None:
    """One failure in calm weather is found within the bound, told, and healed."""
    rows = await s.nodes()
    if not rows:
        return
    # Cool-downs of the storm are over, and tries are forgotten: after a step back of the wall clock
    # that takes so much longer.
    await s.clock.sleep(120 + s.clock.forward_s - s.clock.stepped_s)
    victim = s.rng.choice(rows)
    at_us = s.clock.now_us()
    s.world.kill(victim.id)

    async def told() -> bool:
        return any(
            m.topic == "incident.opened" and m.body["node"] == victim.id and m.at_us >= at_us
            for m in s.notifier.received
        )

    await s.until(told, 60 + 2 * SETTLINGS_S, "the last failure was told")
    await s.until(s.all_well, LADDER_S, "the last failure was healed")


async def _nothing_leaks(s: Stage) -> None:
    """Deleting the cluster leaves no copy behind, made late, half or twice."""
    await s.commands.delete_cluster("web", by="op")

    async def gone() -> bool:
        return not await s.nodes()

    await s.until(gone, 300, "the cluster was deleted")
    left = {i: s.world.alive(i) for i in s.node_ids() if s.world.alive(i)}
    assert not left, f"copies that nobody knows of: {left}"


SETTLINGS_S = SETTINGS.lease
