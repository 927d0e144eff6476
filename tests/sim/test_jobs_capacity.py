"""What a cluster wants stays true to what was asked of it, so that nobody deletes for a wrong number."""

from __future__ import annotations

import pytest
from tests.sim.jobs import (
    HOOK,
    WHO,
    a_cluster,
    act,
    action_of,
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

from yaffle.errors import BadRequest, NotFound
from yaffle.model.authz import RIGHTS, Principal, Role
from yaffle.store import catalog


async def keeps(s: Stage, count: int) -> None:
    """Wanting and having agree, and mending the number deletes and makes nobody."""
    before = {n.id for n in await members(s)}
    assert (await the_cluster(s)).desired_capacity == len(before) == count
    await act(s, "recover", {"check_capacity": True})
    assert {n.id for n in await members(s)} == before


@pytest.mark.parametrize("force", [True, False], ids=["force", "plain"])
def test_a_scale_in_that_is_cancelled_in_its_grace_period_wants_its_nodes_back(force: bool) -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 4, document("deletion", grace_period=60))
        ident = await ask(s, "scale_in", {"count": 2})
        await s.clock.sleep(5)
        assert (await the_cluster(s)).desired_capacity == 2
        await s.commands.action_cancel(WHO, ident, force=force)
        await ended(s, ident, within_s=30, status="CANCELLED")
        await keeps(s, 4)

    play(story)


def test_a_grace_period_is_not_time_that_the_action_takes() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 3, document("deletion", grace_period=300), timeout=60)
        ident = await ask(s, "scale_in", {})
        assert (await action_of(s, ident)).timeout_s == 360
        await ended(s, ident, within_s=400)
        await keeps(s, 2)

    play(story)


def test_a_hook_that_is_waited_for_is_not_time_either() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(
            s, 3, document("deletion", "1.1", hooks={**HOOK, "timeout": 200}), timeout=60
        )
        ident = await ask(s, "scale_in", {})
        await ended(s, ident, within_s=300)
        await keeps(s, 2)

    play(story)


def test_a_deletion_that_is_cancelled_gives_its_node_back() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 3, document("deletion", "1.1", hooks=HOOK))
        node = (await members(s))[2]
        ident = await s.commands.node_delete(WHO, node.id)
        await s.clock.sleep(2)
        await s.commands.action_cancel(WHO, ident)
        await ended(s, ident, status="CANCELLED")
        await keeps(s, 3)

    play(story)


def test_what_is_given_back_stays_within_a_bound_that_was_lowered_meanwhile() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 3, document("deletion", "1.1", hooks=HOOK))
        ident = await s.commands.node_delete(WHO, (await members(s))[2].id)
        await act(s, "resize", {"max_size": 2})
        await s.commands.action_cancel(WHO, ident)
        await ended(s, ident, status="CANCELLED")
        home = await the_cluster(s)
        assert (home.desired_capacity, home.max_size, len(await members(s))) == (2, 2, 3)

    play(story)


def test_a_part_of_a_scale_in_that_is_cancelled_gives_its_node_back() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 3, document("deletion", "1.1", hooks={**HOOK, "timeout": 60}))
        ident = await ask(s, "scale_in", {"count": 2})
        (first, _) = await parts(s, ident)
        await s.commands.action_cancel(WHO, first.id)
        await ended(s, ident, within_s=120, status="FAILED")
        await keeps(s, 2)

    play(story)


def test_a_cluster_that_has_fewer_than_it_wants_gives_no_more_than_there_are_too_many() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 3)
        await act(s, "del_nodes", {"nodes": [(await members(s))[0].id]})
        await act(s, "resize", {"adjustment_type": "EXACT_CAPACITY", "number": 2})
        await keeps(s, 2)

    play(story)


def test_the_end_of_a_creation_does_not_take_a_deletion_s_word_away() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(
            s,
            3,
            document("deletion", "1.1", hooks={**HOOK, "timeout": 200}),
            spec={"create_s": 10.0},
        )
        grown = await ask(s, "scale_out", {"count": 1})
        await soon(s, under_way(s, "CREATE"))
        node = (await members(s))[-1]
        deletion = await s.commands.node_delete(WHO, node.id, force=True)
        await ended(s, grown, within_s=60)
        assert {n.id: n.status for n in await members(s)}[node.id] == "DELETING"
        shrunk = await ask(s, "scale_in", {})
        assert deletion not in {p.id for p in await parts(s, shrunk)}
        await ended(s, shrunk, within_s=400)
        await ended(s, deletion, within_s=400)
        await keeps(s, 2)

    play(story)


def test_force_does_not_let_go_of_what_is_making_a_copy() -> None:
    """Nobody would find a copy that comes to be after its node was deleted."""

    async def story(s: Stage) -> None:
        await a_cluster(s, 0, spec={"create_s": 30.0})
        ident = await ask(s, "scale_out", {"count": 1})
        (part,) = await parts(s, ident)
        await soon(s, under_way(s, "CREATE"))
        await s.commands.action_cancel(WHO, part.id, force=True)
        node = (await members(s))[0]
        deletion = await s.commands.node_delete(WHO, node.id, force=True)
        await ended(s, deletion, within_s=120)
        await s.clock.sleep(60)
        s.world.settle()
        assert not await members(s)
        assert not s.world.alive(node.id)

    play(story)


def test_what_an_administrator_asks_of_another_project_is_that_project_s() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 3)
        admin = Principal(user="adm", project="elsewhere", rights=RIGHTS[Role.ADMIN])
        bob = Principal(user="bob", project="elsewhere", rights=RIGHTS[Role.MEMBER])
        home = await the_cluster(s)
        node = (await members(s))[0]
        for ident in (
            await s.commands.cluster_act(admin, home.id, "scale_out", {"count": 1}),
            await s.commands.node_check(admin, node.id),
            await s.commands.node_delete(admin, node.id, force=True),
        ):
            assert (await action_of(s, ident)).project == home.project
            with pytest.raises(NotFound):
                await s.commands.action_cancel(bob, ident, force=True)
        await settled(s)

    play(story)


async def wanting(s: Stage, size: int, wanted: int) -> None:
    """A cluster of `size` nodes that wants another number: after failures it may be so."""
    await a_cluster(s, size)
    home = await the_cluster(s)
    await s.store.write(
        lambda conn: catalog.set_cluster(conn, home.id, s.clock.now_us(), desired_capacity=wanted)
    )


@pytest.mark.parametrize(("there", "wanted"), [(4, 1), (2, 2), (1, 4), (3, 3)])
def test_an_exact_number_is_what_there_is_afterwards(there: int, wanted: int) -> None:
    async def story(s: Stage) -> None:
        await wanting(s, there, wanted)
        await act(s, "resize", {"adjustment_type": "EXACT_CAPACITY", "number": 3})
        await keeps(s, 3)

    play(story)


def test_scaling_out_makes_up_for_what_is_missing_and_not_for_what_is_there() -> None:
    async def story(s: Stage) -> None:
        await wanting(s, 3, 1)
        await act(s, "scale_out", {"count": 3})
        await keeps(s, 4)

    play(story)


def test_scaling_in_takes_no_more_than_was_asked_for() -> None:
    async def story(s: Stage) -> None:
        await wanting(s, 5, 3)
        await act(s, "scale_in", {"count": 1})
        assert len(await members(s)) == 4

    play(story)


def test_more_than_there_are_is_refused() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 3)
        with pytest.raises(BadRequest, match="less than the cluster's min_size"):
            await ask(s, "scale_in", {"count": 50})
        await keeps(s, 3)

    play(story)


def test_what_is_merged_for_a_recovery_stays_to_be_read() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 2, policy(mode="observe"))
        s.world.kill((await members(s))[0].id)
        await s.clock.sleep(30)
        ident = await ask(s, "recover", {"operation": "REBOOT"})
        said = {"recover_action": [{"name": "REBOOT"}]}
        assert (await action_of(s, ident)).data["health"] == said
        await ended(s, ident, within_s=120)
        assert (await action_of(s, ident)).data["health"] == said

    play(story)
