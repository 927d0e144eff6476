"""Words for stories about cluster actions, and what has to be true of all of them at the end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from sqlalchemy import select, update
from tests.sim.stage import Stage, stage

from yaffle.core.health.cluster_status import judge
from yaffle.engine.cluster_actions.table import disturbs
from yaffle.model.authz import LOCAL
from yaffle.policy import parse_document
from yaffle.store import actions, catalog
from yaffle.store.rows import ActionRow, load
from yaffle.store.tables import actions as action_table
from yaffle.testing import run_virtual

Story = Callable[[Stage], Awaitable[None]]
WHO = LOCAL
CALM: Mapping[str, Any] = {"mode": "observe"}
"""A health policy that heals nothing."""
IN_HAND = {"INIT", "CREATING", "UPDATING", "DELETING", "OPERATING", "RECOVERING"}


def play(story: Story, *, seed: int = 7, alone: bool = True, careful: bool = False) -> None:
    """Tell the story to one engine; what must always be true is asked at its end."""

    async def main() -> None:
        async with stage(seed, alone=alone, careful=careful) as s:
            s.start()
            await story(s)
            await consistent(s)

    run_virtual(main, seed=seed, cpu_s=60)


def document(kind: str, version: str = "1.0", **properties: Any) -> dict[str, Any]:
    """A policy document of one of Senlin's families."""
    return {"type": f"senlin.policy.{kind}", "version": version, "properties": properties}


HOOK = {"type": "webhook", "params": {"url": "http://198.51.100.1/hook"}, "timeout": 40}


async def add_policy(s: Stage, name: str, spec: Mapping[str, Any]) -> str:
    return str(await s.commands.create_policy(name, parse_document(spec), by="op"))


async def a_cluster(
    s: Stage,
    size: int,
    *policies: Mapping[str, Any],
    name: str = "web",
    spec: Mapping[str, object] | None = None,
    wait: bool = True,
    **asked: Any,
) -> str:
    """Create a cluster of profile NAME-profile under these policies."""
    given = spec or {"create_s": 3.0}
    await s.commands.create_profile(f"{name}-profile", s.profile.type, given, by="op")
    ident, action = await s.commands.cluster_create(
        WHO, name=name, profile=f"{name}-profile", desired_capacity=size, **asked
    )
    for number, one in enumerate(policies):
        await add_policy(s, f"{name}-policy-{number}", one)
    if wait:
        await ended(s, action)
        for number in range(len(policies)):
            await act(s, "policy_attach", {"policy_id": f"{name}-policy-{number}"}, of=name)
    return str(ident)


async def action_of(s: Stage, ident: str) -> ActionRow:
    row = await s.store.read(lambda c: actions.get(c, ident))
    assert row is not None
    return row  # type: ignore[no-any-return]


async def ended(
    s: Stage, ident: str, within_s: float = 300, status: str = "SUCCEEDED"
) -> ActionRow:
    """Wait for the end of an action and expect a status."""

    async def over() -> bool:
        return (await action_of(s, ident)).status in actions.ENDED

    await s.until(over, within_s, f"{(await action_of(s, ident)).action} has ended")
    row = await action_of(s, ident)
    assert row.status == status, f"{row.action} {row.status}: {row.status_reason}"
    assert (row.lock_key, row.wake_us) == (None, None)
    return row


async def ask(s: Stage, verb: str, data: Mapping[str, Any], of: str = "web") -> str:
    return str(await s.commands.cluster_act(WHO, of, verb, data))


async def act(
    s: Stage,
    verb: str,
    data: Mapping[str, Any] | None = None,
    *,
    of: str = "web",
    within_s: float = 300,
    status: str = "SUCCEEDED",
) -> ActionRow:
    """Ask for a cluster action and wait for its end."""
    return await ended(s, await ask(s, verb, data or {}, of), within_s, status)


async def the_cluster(s: Stage, name: str = "web") -> Any:
    return await s.store.read(lambda c: catalog.find_cluster(c, name))


async def no_cluster(s: Stage) -> bool:
    from yaffle.store.tables import clusters

    return not await s.store.read(lambda c: c.execute(select(clusters.c.id)).all())


async def members(s: Stage, name: str = "web") -> list[Any]:
    """The members by index."""
    home = await the_cluster(s, name)
    rows = [n for n in await s.nodes() if n.cluster_id == home.id]
    return sorted(rows, key=lambda n: n.index)


async def parts(s: Stage, ident: str) -> Sequence[ActionRow]:
    return list(await s.store.read(lambda c: actions.parts(c, ident)))


async def all_actions(s: Stage) -> list[ActionRow]:
    query = select(action_table).order_by(action_table.c.created_us, action_table.c.id)
    return [load(ActionRow, r) for r in await s.store.read(lambda c: c.execute(query).all())]


async def soon(s: Stage, condition: Callable[[], Awaitable[bool]], within_s: float = 120) -> None:
    """Wait at a pace that no operation of the world escapes."""
    end_s = s.clock.monotonic_s() + within_s
    while not await condition():
        assert s.clock.monotonic_s() < end_s, f"never came to be\n{await s.picture()}"
        await s.clock.sleep(0.05)


def under_way(s: Stage, kind: str, count: int = 1) -> Callable[[], Awaitable[bool]]:
    """Return a condition: the backend is busy with so many operations of a kind."""

    async def busy() -> bool:
        s.world.settle()
        return sum(j.kind == kind and j.state == "running" for j in s.world.jobs) >= count

    return busy


async def set_action(s: Stage, ident: str, **values: Any) -> None:
    """Tamper with a row, as a bug or another hand might."""
    await s.store.write(
        lambda c: c.execute(update(action_table).where(action_table.c.id == ident).values(**values))
    )


# --- what is always true ---------------------------------------------------------------------------


async def consistent(s: Stage) -> None:
    """No lock of nobody, no node that nothing will ever change again, statuses by the rule."""
    s.audit.copies()
    rows, every = await s.nodes(), await all_actions(s)
    open_ = [a for a in every if a.status in actions.UNFINISHED]
    locks = [a.lock_key for a in every if a.lock_key is not None]
    assert len(locks) == len(set(locks))
    assert not [a for a in every if a.lock_key is not None and a.status in actions.ENDED]
    busy = {a.node_id for a in open_}
    stuck = [(n.name, n.status) for n in rows if n.status in IN_HAND and n.id not in busy]
    assert not stuck, f"nothing will ever change these: {stuck}\n{await s.picture()}"
    for a in open_:
        if a.action.startswith("CLUSTER_") and a.status == actions.WAITING:
            assert a.wake_us is not None, f"nothing wakes {a.action}"
    if not s.clock.stepped_s:  # else times of rows say nothing of their order
        _nothing_healed_meanwhile(every)
    await judged(s, {a.lock_key for a in open_})


def _nothing_healed_meanwhile(every: Sequence[ActionRow]) -> None:
    """Healing begins in no cluster from which a user is taking nodes."""
    for one in every:
        if one.action != "NODE_RECOVER" or one.cause != "Health Policy":
            continue
        for other in every:
            if other.cluster_id != one.cluster_id or not disturbs(other):
                continue
            begun, over = other.start_us or other.created_us, other.end_us or 2**62
            assert not begun < one.created_us < over, f"healed during {other.action}"


async def judged(s: Stage, held: set[Any]) -> None:
    """Every cluster that nothing is being done to has the status that Senlin's rule gives it."""

    def work(conn: Any) -> Any:
        from yaffle.store.tables import clusters

        idents = conn.execute(select(clusters.c.id)).scalars().all()
        return [(catalog.cluster(conn, i), catalog.statuses_of(conn, i)) for i in idents]

    for cluster, statuses in await s.store.read(work):
        if cluster.id in held or cluster.status == "DELETING":
            continue
        expected, _ = judge(
            statuses.get("ACTIVE", 0),
            desired=cluster.desired_capacity,
            min_size=cluster.min_size,
            max_size=cluster.max_size,
            operation="",
        )
        assert cluster.status == expected, f"{cluster.name} {cluster.status}: {statuses}"


async def settled(s: Stage, within_s: float = 600) -> None:
    """Wait until nothing is unfinished."""

    async def quiet() -> bool:
        return not await s.store.read(actions.unfinished)

    await s.until(quiet, within_s, "nothing is unfinished")
    await consistent(s)


async def as_wanted(s: Stage, name: str = "web") -> None:
    """As many members as are wanted, each ACTIVE with one serving copy."""
    home, rows = await the_cluster(s, name), await members(s, name)
    assert len(rows) == home.desired_capacity, await s.picture()
    for n in rows:
        assert n.status == "ACTIVE", await s.picture()
        assert len(s.world.alive(n.id)) == 1, await s.picture()
