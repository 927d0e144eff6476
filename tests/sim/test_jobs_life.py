"""Clusters created, updated in batches, and deleted, whatever goes wrong on the way."""

from __future__ import annotations

from itertools import pairwise
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
    no_cluster,
    parts,
    play,
    set_action,
    settled,
    soon,
    the_cluster,
    under_way,
)
from tests.sim.stage import Stage, policy

from yaffle.errors import ActionInProgress, BadRequest, FeatureNotSupported
from yaffle.testing import Fault, Rule

# --- create ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 12])
def test_created(size: int) -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, size)
        await as_wanted(s)
        home = await the_cluster(s)
        assert (home.status, home.made_us is not None) == ("ACTIVE", True)
        assert [n.index for n in await members(s)] == list(range(1, size + 1))

    play(story)


@pytest.mark.parametrize(
    ("min_size", "status"), [pytest.param(0, "WARNING"), pytest.param(3, "ERROR")]
)
def test_one_node_that_cannot_be_made(min_size: int, status: str) -> None:
    async def story(s: Stage) -> None:
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:CREATE", times=1))
        await a_cluster(s, 3, min_size=min_size, wait=False)
        (create,) = await all_of(s, "CLUSTER_CREATE")
        row = await ended(s, create, status="FAILED")
        assert "1 of 3 parts did not succeed" in row.status_reason
        assert "the backend says no" in row.status_reason
        home = await the_cluster(s)
        assert home.status == status
        assert sorted(n.status for n in await members(s)) == ["ACTIVE", "ACTIVE", "ERROR"]

    play(story)


async def all_of(s: Stage, action: str) -> list[str]:
    return [a.id for a in await all_actions(s) if a.action == action]


# --- update ----------------------------------------------------------------------------------------


def test_words_are_changed_at_once() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 2)
        before = len(s.plan.calls)
        ident = await s.commands.cluster_update(
            WHO, "web", name="shop", metadata={"a": 1}, timeout=99
        )
        assert (await action_of(s, ident)).status == "SUCCEEDED"
        home = await the_cluster(s, "shop")
        assert (home.metadata, home.timeout_s) == ({"a": 1}, 99)
        assert not [c for _, c, _ in s.plan.calls[before:] if c.startswith("submit")]
        with pytest.raises(BadRequest):
            await s.commands.cluster_update(WHO, "shop", name="shop")

    play(story)


async def new_profile(s: Stage, name: str = "new") -> None:
    await s.commands.create_profile(name, s.profile.type, {"create_s": 3.0, "image": "2"}, by="op")


def images(s: Stage) -> list[Any]:
    found = []
    for ident in s.node_ids():
        found += [c.spec.get("image") for c in s.world.alive(ident)]
    return found


async def least_in_service(s: Stage, action: str, size: int) -> int:
    """Watch the roll-out to its end; return how few copies served at any moment."""
    least = size
    while (await action_of(s, action)).end_us is None:
        serving = sum(s.world.serving(i) for i in s.node_ids())
        least = min(least, serving)
        await s.clock.sleep(0.1)
    return least


@pytest.mark.parametrize(
    ("bound", "least", "batches"),
    [
        pytest.param(None, 1, 2, id="no-policy"),
        pytest.param({"min_in_service": 2, "max_batch_size": 2, "pause_time": 0}, 3, 3, id="two"),
        pytest.param({"min_in_service": 4, "max_batch_size": 9, "pause_time": 0}, 4, 5, id="one"),
        pytest.param({"min_in_service": 5, "max_batch_size": 2, "pause_time": 7}, 4, 5, id="small"),
    ],
)
def test_a_new_profile_rolls_out(bound: Any, least: int, batches: int) -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 5, *([document("batch", **bound)] if bound else []))
        await new_profile(s)
        ident = await s.commands.cluster_update(WHO, "web", profile="new")
        assert (await the_cluster(s)).status == "UPDATING"
        assert await least_in_service(s, ident, 5) == least
        row = await ended(s, ident)
        assert images(s) == ["2"] * 5
        begun = sorted({p.created_us for p in await parts(s, ident)})
        assert len(begun) == batches
        if bound and bound["pause_time"]:
            assert all(b - a > 7_000_000 for a, b in pairwise(begun))
        assert row.data["rested"] is False
        await as_wanted(s)

    play(story)


def test_a_batch_that_fails_stops_the_roll_out_and_it_can_be_taken_up_again() -> None:
    async def story(s: Stage) -> None:
        rule = document("batch", min_in_service=2, max_batch_size=1, pause_time=0)
        await a_cluster(s, 3, rule)
        await new_profile(s)
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:CREATE", skip=1, times=1))
        ident = await s.commands.cluster_update(WHO, "web", profile="new")
        row = await ended(s, ident, status="FAILED")
        assert "the backend says no" in row.status_reason
        assert [n.status for n in await members(s)] == ["ACTIVE", "ERROR", "ACTIVE"]
        assert len(await parts(s, ident)) == 2, "the third was left alone"
        assert (await the_cluster(s)).status == "WARNING"
        await ended(
            s, await s.commands.cluster_update(WHO, "web", profile="new"), status="SUCCEEDED"
        )
        assert images(s) == ["2"] * 3
        await as_wanted(s)

    play(story)


def test_a_node_that_fails_during_the_roll_out_is_not_made_up_for_by_another() -> None:
    """Two have to serve: when one fails that is not being updated, no other may be taken down."""

    async def story(s: Stage) -> None:
        rule = document("batch", min_in_service=2, max_batch_size=1, pause_time=20)
        await a_cluster(s, 3, policy(mode="observe"), rule)
        await s.clock.sleep(30)
        await new_profile(s)
        ident = await s.commands.cluster_update(WHO, "web", profile="new")
        first = (await parts(s, ident))[0].node_id
        await soon(s, under_way(s, "CREATE"))
        victim = next(n.id for n in await members(s) if n.id != first)
        await s.clock.sleep(5)
        s.world.kill(victim)
        assert await least_in_service(s, ident, 3) == 2
        # The failed one is renewed first, which costs nothing; then the last one's turn has come.
        await ended(s, ident)
        assert images(s) == ["2"] * 3

    play(story)


def test_a_version_that_does_not_serve_goes_no_further() -> None:
    async def story(s: Stage) -> None:
        rule = document("batch", min_in_service=2, max_batch_size=1, pause_time=30)
        await a_cluster(s, 3, policy(mode="observe"), rule)
        await s.clock.sleep(30)
        await new_profile(s)
        ident = await s.commands.cluster_update(WHO, "web", profile="new")
        first = (await parts(s, ident))[0].node_id
        assert first is not None
        await s.clock.sleep(8)
        s.world.hang(first)
        row = await ended(s, ident, status="FAILED")
        assert "2 nodes left as they were: 2 in service, 2 have to stay" in row.status_reason

    play(story)


def test_what_is_being_deleted_is_not_updated() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 3)
        await new_profile(s)
        victim, name = (await members(s))[0].id, (await members(s))[0].name
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:DELETE", node=name, times=2))
        await s.commands.node_delete(WHO, victim)
        ident = await s.commands.cluster_update(WHO, "web", profile="new")
        await ended(s, ident)
        assert victim not in {p.node_id for p in await parts(s, ident)}
        await settled(s)
        assert victim not in {n.id for n in await s.nodes()}
        await as_wanted(s)

    play(story)


def test_what_cannot_be_updated() -> None:
    async def story(s: Stage) -> None:
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:CREATE"))
        await a_cluster(s, 1, min_size=1, wait=False)
        await settled(s)
        with pytest.raises(FeatureNotSupported):
            await s.commands.cluster_update(WHO, "web", name="shop")

    play(story)


# --- delete ----------------------------------------------------------------------------------------


def test_deleted() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 4)
        ident = await s.commands.cluster_delete(WHO, "web")
        await ended(s, ident)
        assert await no_cluster(s)
        assert not any(s.world.alive(i) for i in s.node_ids())

    play(story)


def test_an_empty_cluster_is_gone_at_once() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 0)
        ident = await s.commands.cluster_delete(WHO, "web")
        assert (await action_of(s, ident)).status == "SUCCEEDED"
        assert await no_cluster(s)

    play(story)


def test_deleted_by_force_while_it_is_being_created() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 4, wait=False)
        (create,) = await all_of(s, "CLUSTER_CREATE")
        with pytest.raises(ActionInProgress):
            await s.commands.cluster_delete(WHO, "web")
        await soon(s, under_way(s, "CREATE", 4))
        ident = await s.commands.cluster_delete(WHO, "web", force=True)
        assert (await action_of(s, create)).status == "CANCELLED"
        await ended(s, ident)
        assert await no_cluster(s)
        await s.clock.sleep(30)
        assert not any(s.world.alive(i) for i in s.node_ids())

    play(story)


def test_deleted_in_batches() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 5, document("batch", min_in_service=1, max_batch_size=2, pause_time=10))
        ident = await s.commands.cluster_delete(WHO, "web")
        await ended(s, ident)
        begun = [p.created_us for p in await parts(s, ident)]
        assert sorted(begun.count(b) for b in set(begun)) == [1, 2, 2]
        assert max(begun) - min(begun) > 20_000_000
        assert await no_cluster(s)

    play(story)


def test_a_node_whose_deletion_fails_at_first() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 3)
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:DELETE", times=3))
        ident = await s.commands.cluster_delete(WHO, "web")
        await ended(s, ident)
        assert len(await parts(s, ident)) == 6
        assert await no_cluster(s)

    play(story)


def test_a_second_deletion_takes_the_first_one_over() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 3)
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:DELETE", times=3))
        first = await s.commands.cluster_delete(WHO, "web")
        await s.clock.sleep(2)
        with pytest.raises(ActionInProgress):
            await s.commands.cluster_delete(WHO, "web")
        second = await s.commands.cluster_delete(WHO, "web", force=True)
        assert (await action_of(s, first)).status == "CANCELLED"
        await ended(s, second)
        assert await no_cluster(s)
        assert not any(s.world.alive(i) for i in s.node_ids())

    play(story)


def test_deleted_while_a_recovery_is_fencing() -> None:
    async def story(s: Stage) -> None:
        recreate = [{"name": "RECREATE", "timeout": 60}]
        await a_cluster(
            s, 3, policy(actions=recreate, limits={"max_unhealthy": "100%", "max_in_flight": 2})
        )
        await s.clock.sleep(30)
        s.plan.rules.append(Rule(fault=Fault.HANG, call="fence", times=2))
        s.world.hang(s.node_ids()[0])

        async def fencing() -> bool:
            return any(call == "fence" for _, call, _ in s.plan.calls)

        await soon(s, fencing)
        ident = await s.commands.cluster_delete(WHO, "web", force=True)
        await ended(s, ident)
        assert await no_cluster(s)
        await s.clock.sleep(60)
        assert not any(s.world.alive(i) for i in s.node_ids())

    play(story)


def test_a_deletion_that_takes_too_long_goes_on_until_nothing_is_left() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 2, timeout=60)
        rule = Rule(fault=Fault.FAIL, call="submit:DELETE")
        s.plan.rules.append(rule)
        ident = await s.commands.cluster_delete(WHO, "web")
        row = await ended(s, ident, status="FAILED")
        assert row.status_reason.startswith("Timeout")
        assert (await the_cluster(s)).status == "DELETING"
        s.plan.rules.clear()
        await settled(s)
        assert await no_cluster(s)
        assert not any(s.world.alive(i) for i in s.node_ids())

    play(story)


def test_a_deletion_in_batches_that_takes_too_long_leaves_a_cluster_that_is_watched() -> None:
    async def story(s: Stage) -> None:
        batch = document("batch", min_in_service=1, max_batch_size=1, pause_time=0)
        await a_cluster(s, 2, batch, timeout=60)
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:DELETE"))
        ident = await s.commands.cluster_delete(WHO, "web")
        await ended(s, ident, status="FAILED")
        assert (await the_cluster(s)).status == "WARNING"
        s.plan.rules.clear()
        await settled(s)
        assert [n.status for n in await members(s)] == ["ACTIVE"]
        await ended(s, await s.commands.cluster_delete(WHO, "web"))
        assert await no_cluster(s)

    play(story)


@pytest.mark.parametrize("begun", [True, False], ids=["begun", "resting"])
def test_a_deletion_that_is_cancelled_leaves_a_cluster_that_is_watched(begun: bool) -> None:
    async def story(s: Stage) -> None:
        batch = document("batch", min_in_service=1, max_batch_size=1, pause_time=20)
        await a_cluster(s, 3, batch)
        ident = await s.commands.cluster_delete(WHO, "web")
        await (soon(s, under_way(s, "DELETE")) if begun else s.clock.sleep(12))
        await s.commands.action_cancel(WHO, ident)
        await ended(s, ident, status="CANCELLED", within_s=30)
        await settled(s)
        assert (await the_cluster(s)).status == "WARNING"
        assert len(await members(s)) == (3 if begun else 2)
        await ended(s, await s.commands.cluster_delete(WHO, "web"))

    play(story)


def test_a_running_deletion_of_a_node_that_is_cancelled_is_not_tried_again() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 2, spec={"delete_s": 5.0})
        victim = (await members(s))[0].id
        ident = await s.commands.node_delete(WHO, victim)
        await soon(s, under_way(s, "DELETE"))
        await s.commands.action_cancel(WHO, ident)
        await ended(s, ident, status="CANCELLED", within_s=30)
        await settled(s)
        await s.clock.sleep(30)
        assert [n.status for n in await members(s) if n.id == victim] == ["ERROR"]

    play(story)


def test_a_part_of_a_deletion_cancelled_by_somebody_else() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 3)
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:DELETE", node="*", times=1))
        ident = await s.commands.cluster_delete(WHO, "web")
        again: list[Any] = []

        async def tried() -> bool:
            again[:] = [p for p in await parts(s, ident) if p.inputs.get("tries")]
            return bool(again)

        await soon(s, tried)
        part = again[0]
        await s.commands.action_cancel(WHO, part.id)
        row = await ended(s, ident, status="FAILED", within_s=30)
        assert "cancelled" in row.status_reason
        (left,) = await members(s)
        assert left.status == "ERROR"
        home = await the_cluster(s)
        assert home.status == "WARNING"

    play(story)


def test_a_parent_of_a_kind_that_cannot_go_on_ends_and_its_cluster_is_judged() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 2)
        ident = await ask(s, "scale_out", {"count": 1})
        await set_action(s, ident, action="CLUSTER_ATTACH_POLICY")
        row = await ended(s, ident, status="FAILED")
        assert "nothing to go on with" in row.status_reason
        await as_wanted(s)
        await act(s, "check")

    play(story)
