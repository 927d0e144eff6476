"""Nodes that join, leave and take each other's place, also while they are being recovered."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sim.jobs import (
    WHO,
    a_cluster,
    act,
    action_of,
    all_actions,
    as_wanted,
    ask,
    document,
    ended,
    members,
    parts,
    play,
    settled,
    soon,
    the_cluster,
    under_way,
)
from tests.sim.stage import Stage, policy

from yaffle.errors import BadRequest, ResourceIsLocked
from yaffle.store import incidents
from yaffle.testing import Fault, Rule

RECREATE = [{"name": "RECREATE", "timeout": 60}]


async def orphans(s: Stage, count: int, profile: str = "web-profile") -> list[str]:
    """Make nodes that belong to nobody."""
    made = [
        await s.commands.node_create(WHO, name=f"orphan-{n}", profile=profile) for n in range(count)
    ]
    for _, action in made:
        await ended(s, action)
    return [str(ident) for ident, _ in made]


def test_nodes_join() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 1, max_size=3)
        new = await orphans(s, 3)
        with pytest.raises(BadRequest):
            await ask(s, "add_nodes", {"nodes": new})
        await act(s, "add_nodes", {"nodes": new[:2]})
        assert [n.index for n in await members(s)] == [1, 2, 3]
        assert (await the_cluster(s)).desired_capacity == 3
        await as_wanted(s)
        for wrong in (["nobody"], new[:1], [new[2], new[2]]):
            with pytest.raises(BadRequest):
                await ask(s, "add_nodes", {"nodes": wrong})

    play(story)


@pytest.mark.parametrize("destroy", [None, False, True])
def test_nodes_leave(destroy: bool | None) -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 3)
        gone = [n.id for n in (await members(s))[:2]]
        said: dict[str, Any] = {} if destroy is None else {"destroy_after_deletion": destroy}
        await act(s, "del_nodes", {"nodes": gone, **said})
        await as_wanted(s)
        left = {n.id: n for n in await s.nodes()}
        assert all((i in left) is not (destroy is True) for i in gone)
        assert all(s.world.serving(i) is not (destroy is True) for i in gone)
        if not destroy:
            await act(s, "add_nodes", {"nodes": gone})
            assert [n.index for n in await members(s)] == [3, 4, 5]

    play(story)


def test_what_is_being_deleted_is_not_counted_twice() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 3)
        victim = (await members(s))[0]
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:DELETE", node=victim.name, times=2))
        await s.commands.node_delete(WHO, victim.id)
        (new,) = await orphans(s, 1)
        for verb, nodes in (("del_nodes", [victim.id]), ("replace_nodes", {victim.id: new})):
            with pytest.raises(BadRequest):
                await ask(s, verb, {"nodes": nodes})
        await act(s, "scale_in")
        await settled(s)
        await as_wanted(s)
        assert len(await members(s)) == 1

    play(story)


def test_nodes_are_replaced() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 3)
        new = await orphans(s, 2)
        old = [n.id for n in await members(s)]
        await act(s, "replace_nodes", {"nodes": dict(zip(old, new, strict=False))})
        assert [n.id for n in await members(s)] == [
            old[2],
            *sorted(new, key=order(await members(s))),
        ]
        await as_wanted(s)
        rest = {n.id: n for n in await s.nodes()}
        assert all(rest[i].cluster_id is None for i in old[:2])
        for wrong in ({old[0]: new[0]}, {old[2]: new[0]}, {"nobody": old[0]}):
            with pytest.raises(BadRequest):
                await ask(s, "replace_nodes", {"nodes": wrong})

    play(story)


def order(rows: list[Any]) -> Any:
    return {n.id: n.index for n in rows}.__getitem__


async def fencing(s: Stage) -> None:
    """Have a member of a cluster under a health policy recovered, and wait in the middle of it."""
    await a_cluster(s, 3, policy(actions=RECREATE))
    await s.clock.sleep(30)
    s.plan.rules.append(Rule(fault=Fault.HANG, call="fence"))
    s.world.hang((await members(s))[0].id)

    async def begun() -> bool:
        return any(call == "fence" for _, call, _ in s.plan.calls)

    await soon(s, begun)


@pytest.mark.parametrize("verb", ["del_nodes", "replace_nodes", "update"])
def test_a_member_that_is_being_recovered(verb: str) -> None:
    """The recovery stops at its next step; the node does not go on being healed as an orphan."""

    async def story(s: Stage) -> None:
        await fencing(s)
        victim = (await members(s))[0].id
        match verb:
            case "del_nodes":
                ident = await ask(s, verb, {"nodes": [victim]})
            case "replace_nodes":
                (new,) = await orphans(s, 1)
                ident = await ask(s, verb, {"nodes": {victim: new}})
            case _:
                await s.commands.create_profile("new", s.profile.type, {"image": "2"}, by="op")
                ident = await s.commands.cluster_update(WHO, "web", profile="new")
        part = next(p for p in await parts(s, ident) if p.node_id == victim)
        assert (part.status, part.lock_key) == ("WAITING", None)
        await ended(s, ident)
        recovery = next(a for a in await all_actions(s) if a.action == "NODE_RECOVER")
        assert recovery.status == "CANCELLED"
        await settled(s)
        await as_wanted(s)
        row = next(n for n in await s.nodes() if n.id == victim)
        assert row.status in {"ACTIVE", "WARNING", "ERROR"}
        assert not await s.store.read(lambda c: incidents.open_of(c, victim))
        assert not [a for a in await all_actions(s) if a.node_id == victim and a.end_us is None]

    play(story)


def test_a_node_that_is_busy_joins_afterwards() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 1, spec={"reboot_s": 20.0})
        (new,) = await orphans(s, 1)
        await s.commands.node_check(WHO, new)
        ident = await ask(s, "add_nodes", {"nodes": [new]})
        await ended(s, ident)
        await as_wanted(s)

    play(story)


def test_a_deleted_cluster_takes_no_node_along_that_was_about_to_join() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 1, spec={"reboot_s": 30.0})
        (new,) = await orphans(s, 1)
        rule = Rule(fault=Fault.HANG, call="read", node="orphan-0", times=1)
        s.plan.rules.append(rule)
        await s.commands.node_check(WHO, new)
        await s.clock.sleep(1)
        ident = await ask(s, "add_nodes", {"nodes": [new]})
        delete = await s.commands.cluster_delete(WHO, "web", force=True)
        await ended(s, delete)
        assert (await action_of(s, ident)).status == "CANCELLED"
        await settled(s)
        (row,) = await s.nodes()
        assert (row.id, row.cluster_id) == (new, None)

    play(story)


def test_two_at_once_are_refused_and_told_why() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 3, spec={"create_s": 20.0})
        first = await ask(s, "scale_out", {})
        await soon(s, under_way(s, "CREATE"))
        for verb, data in (("scale_in", {}), ("check", {}), ("recover", {})):
            with pytest.raises(ResourceIsLocked):
                await ask(s, verb, data)
        await ended(s, first)
        await act(s, "check")

    play(story)


def test_a_node_made_for_a_cluster_that_shrinks_meanwhile() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 3, document("deletion", criteria="YOUNGEST_FIRST"))
        await s.commands.node_create(WHO, name="x", profile="web-profile", cluster="web")
        await act(s, "scale_in", {"count": 2})
        await settled(s)
        await as_wanted(s)
        assert len(await members(s)) == 2

    play(story)
