"""Clusters that grow and shrink: arithmetic, scaling and deletion policies, hooks before the end."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sim.jobs import (
    HOOK,
    WHO,
    a_cluster,
    act,
    action_of,
    add_policy,
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

from yaffle.errors import (
    ActionCooldown,
    ActionInProgress,
    BadRequest,
    DependencyError,
    NotFound,
    ResourceIsLocked,
)
from yaffle.store.tables import outbox, policies
from yaffle.testing import Fault, Rule

# --- resize ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "size"),
    [
        pytest.param({"adjustment_type": "EXACT_CAPACITY", "number": 6}, 6, id="exact-more"),
        pytest.param({"adjustment_type": "EXACT_CAPACITY", "number": 1}, 1, id="exact-less"),
        pytest.param({"adjustment_type": "EXACT_CAPACITY", "number": 4}, 4, id="same"),
        pytest.param({"adjustment_type": "CHANGE_IN_CAPACITY", "number": 2}, 6, id="two-more"),
        pytest.param({"adjustment_type": "CHANGE_IN_CAPACITY", "number": -3}, 1, id="three-less"),
        pytest.param({"adjustment_type": "CHANGE_IN_PERCENTAGE", "number": 50}, 6, id="half-more"),
        pytest.param(
            {"adjustment_type": "CHANGE_IN_PERCENTAGE", "number": -10, "min_step": 2}, 2, id="step"
        ),
        pytest.param(
            {"adjustment_type": "EXACT_CAPACITY", "number": 9, "max_size": 5, "strict": False},
            5,
            id="cut",
        ),
        pytest.param({"min_size": 5, "strict": False}, 5, id="bounds-alone"),
    ],
)
def test_resized(data: dict[str, Any], size: int) -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 4)
        await act(s, "resize", data)
        home = await the_cluster(s)
        assert (home.desired_capacity, home.status) == (size, "ACTIVE")
        assert home.max_size == data.get("max_size", -1)
        await as_wanted(s)
        assert sum(len(s.world.alive(i)) for i in s.node_ids()) == size

    play(story)


def test_what_is_refused_changes_nothing() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 2, min_size=1, max_size=3)
        before = await the_cluster(s)
        for verb, data in (
            ("scale_out", {"count": 2}),
            ("scale_in", {"count": 2}),
            ("scale_in", {"count": 0}),
            ("resize", {}),
            ("resize", {"number": 2}),
            ("resize", {"min_size": 3, "max_size": 2}),
            ("del_nodes", {"nodes": [n.id for n in await members(s)]}),
            ("bogus", {}),
        ):
            with pytest.raises(BadRequest):
                await ask(s, verb, data)
        assert await the_cluster(s) == before
        await settled(s)

    play(story)


# --- scale -----------------------------------------------------------------------------------------


def scaling(event: str, **adjustment: Any) -> dict[str, Any]:
    return document("scaling", event=f"CLUSTER_SCALE_{event}", adjustment=adjustment)


def test_scaled_by_one_or_by_the_count() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 2)
        for verb, data, size in (
            ("scale_out", {}, 3),
            ("scale_out", {"count": 3}, 6),
            ("scale_in", {"count": None}, 5),
            ("scale_in", {"count": 4}, 1),
        ):
            await act(s, verb, data)
            assert (await the_cluster(s)).desired_capacity == size
            await as_wanted(s)

    play(story)


def test_scaling_policies_say_how_many_and_how_often() -> None:
    async def story(s: Stage) -> None:
        more = scaling("OUT", type="CHANGE_IN_CAPACITY", number=2, cooldown=60)
        less = scaling("IN", type="CHANGE_IN_PERCENTAGE", number=50, min_step=1, cooldown=30)
        await a_cluster(s, 2, more, less)
        await act(s, "scale_out")
        assert (await the_cluster(s)).desired_capacity == 4
        with pytest.raises(ActionCooldown):
            await ask(s, "scale_out", {})
        with pytest.raises(ActionCooldown):
            await ask(s, "scale_in", {})
        # A resize neither asks for nor begins a cool-down.
        await act(s, "resize", {"adjustment_type": "EXACT_CAPACITY", "number": 3})
        await act(s, "resize", {"adjustment_type": "EXACT_CAPACITY", "number": 4})
        await s.clock.sleep(20)
        await act(s, "scale_in")
        assert (await the_cluster(s)).desired_capacity == 2
        s.clock.step(-100_000)
        await act(s, "scale_out")
        await as_wanted(s)

    play(story)


def test_a_scaling_that_failed_cools_nothing_down() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 1, scaling("OUT", type="CHANGE_IN_CAPACITY", number=1, cooldown=600))
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:CREATE", times=1))
        await act(s, "scale_out", status="FAILED")
        assert (await the_cluster(s)).status == "WARNING"
        await act(s, "scale_out")

    play(story)


def test_best_effort_without_room_is_a_success_that_does_nothing() -> None:
    async def story(s: Stage) -> None:
        rule = scaling("OUT", type="CHANGE_IN_CAPACITY", number=5, best_effort=True, cooldown=0)
        await a_cluster(s, 2, rule, max_size=3)
        await act(s, "scale_out")
        await act(s, "scale_out")
        assert (await the_cluster(s)).desired_capacity == 3

    play(story)


def test_sick_nodes_go_first() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 4, policy(mode="observe"))
        await s.clock.sleep(30)
        victim = (await members(s))[2].id
        s.world.kill(victim)
        await s.clock.sleep(30)
        await act(s, "scale_in")
        assert victim not in {n.id for n in await members(s)}
        await as_wanted(s)

    play(story)


# --- the deletion policy ---------------------------------------------------------------------------


def test_nothing_is_given_up_by_a_policy_that_cannot_be_read() -> None:
    """It may say that what is taken out is to be kept: another version may know."""

    async def story(s: Stage) -> None:
        await a_cluster(s, 3, document("deletion", destroy_after_deletion=False))
        junk = {"type": "senlin.policy.deletion", "version": "9.9", "properties": {}}
        await s.store.write(lambda c: c.execute(policies.update().values(spec=junk)))
        with pytest.raises(DependencyError, match="cannot be read here"):
            await ask(s, "scale_in", {"count": 1})
        await s.clock.sleep(30)
        assert len(await members(s)) == 3
        assert all(s.world.alive(ident) for ident in s.node_ids())

    play(story)


@pytest.mark.parametrize(
    ("criteria", "left"),
    [
        pytest.param("OLDEST_FIRST", [3, 4], id="oldest"),
        pytest.param("YOUNGEST_FIRST", [1, 2], id="youngest"),
    ],
)
def test_the_policy_chooses(criteria: str, left: list[int]) -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 2, document("deletion", criteria=criteria))
        await act(s, "scale_out", {"count": 2})
        await act(s, "scale_in", {"count": 2})
        assert [n.index for n in await members(s)] == left
        await as_wanted(s)

    play(story)


def test_nodes_stay_where_the_policy_spares_them() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 3, document("deletion", destroy_after_deletion=False))
        await act(s, "scale_in", {"count": 2})
        assert (await the_cluster(s)).desired_capacity == 1
        orphans = [n for n in await s.nodes() if n.cluster_id is None]
        assert [(n.status, n.index) for n in orphans] == [("ACTIVE", -1)] * 2
        assert all(s.world.serving(n.id) for n in orphans)
        await as_wanted(s)

    play(story)


def test_the_cluster_wants_as_many_as_before_where_the_policy_says_so() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 3, document("deletion", reduce_desired_capacity=False))
        await act(s, "scale_in")
        home = await the_cluster(s)
        assert (home.desired_capacity, home.status) == (3, "WARNING")
        assert len(await members(s)) == 2
        await act(s, "recover", {"check_capacity": True})
        await as_wanted(s)
        await s.commands.node_delete(WHO, (await members(s))[0].id)
        await settled(s)
        assert (await the_cluster(s)).desired_capacity == 3

    play(story)


def test_the_grace_period_is_waited_for() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 3, document("deletion", grace_period=30), policy())
        await s.clock.sleep(30)
        ident = await ask(s, "scale_in", {})
        await s.clock.sleep(25)
        assert not await parts(s, ident)
        assert (await the_cluster(s)).status == "RESIZING"
        with pytest.raises(ResourceIsLocked):
            await ask(s, "scale_out", {})
        await ended(s, ident, within_s=20)
        await as_wanted(s)

    play(story)


@pytest.mark.parametrize("step", [-7200, 20], ids=["back", "on"])
def test_the_grace_period_survives_clocks_that_are_set(step: float) -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 3, document("deletion", grace_period=30))
        ident = await ask(s, "scale_in", {})
        await s.clock.sleep(5)
        s.clock.step(step)
        await s.clock.sleep(1)
        assert not await parts(s, ident)
        await ended(s, ident, within_s=60)
        await as_wanted(s)

    play(story)


def test_a_parent_that_is_woken_for_nothing_goes_on_resting() -> None:
    async def story(s: Stage) -> None:
        from tests.sim.jobs import set_action

        await a_cluster(s, 3, document("deletion", grace_period=30))
        ident = await ask(s, "scale_in", {})
        for spoilt in ({"status": "READY"}, {"wake_us": 1}, {"status": "READY", "wake_us": 2**60}):
            await s.clock.sleep(4)
            await set_action(s, ident, **spoilt)
        await s.clock.sleep(10)
        assert not await parts(s, ident)
        await ended(s, ident, within_s=30)
        await as_wanted(s)

    play(story)


def test_a_node_that_somebody_deletes_during_the_grace_period_is_one_node_less_not_two() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 3, document("deletion", grace_period=30))
        ident = await ask(s, "scale_in", {})
        (chosen,) = (await action_of(s, ident)).data["remove"]["nodes"]  # type: ignore[index,call-overload]
        await s.commands.node_delete(WHO, chosen)
        await ended(s, ident)
        await as_wanted(s)

    play(story)


def test_cancelled_during_the_grace_period_nothing_is_removed() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 3, document("deletion", grace_period=30))
        ident = await ask(s, "scale_in", {})
        await s.clock.sleep(5)
        await s.commands.action_cancel(WHO, ident)
        await ended(s, ident, status="CANCELLED", within_s=10)
        await s.clock.sleep(60)
        assert len(await members(s)) == 3

    play(story)


# --- hooks -----------------------------------------------------------------------------------------


async def hooked(s: Stage, size: int = 2, **more: Any) -> Any:
    """Scale in by one under a hook; return the parent and the part that waits."""
    await a_cluster(s, size, document("deletion", "1.1", hooks=HOOK, **more))
    parent = await ask(s, "scale_in", {})
    (part,) = await parts(s, parent)
    assert part.status == "WAITING_LIFECYCLE_COMPLETION"
    assert part.cause == "Derived Action with Lifecycle Hook"
    return parent, part


async def messages(s: Stage) -> list[Any]:
    rows = await s.store.read(lambda c: c.execute(outbox.select()).all())
    return [r.body["message"] for r in rows if r.notifier == "lifecycle-hook"]


def test_the_hook_is_told_and_answers() -> None:
    async def story(s: Stage) -> None:
        parent, part = await hooked(s)
        (message,) = await messages(s)
        assert message["lifecycle_action_token"] == part.id
        assert message["lifecycle_transition_type"] == "termination"
        await s.clock.sleep(20)
        assert s.world.serving(part.node_id)
        with pytest.raises(NotFound):
            await ask(s, "complete_lifecycle", {"lifecycle_action_token": "bogus"})
        token = await ask(s, "complete_lifecycle", {"lifecycle_action_token": part.id})
        assert token == part.id
        await ended(s, parent, within_s=15)
        assert await ask(s, "complete_lifecycle", {"lifecycle_action_token": part.id}) == part.id
        await as_wanted(s)

    play(story)


def test_the_hook_does_not_answer_in_time() -> None:
    async def story(s: Stage) -> None:
        parent, part = await hooked(s)
        await s.clock.sleep(35)
        assert s.world.serving(part.node_id)
        await ended(s, parent, within_s=25)
        await as_wanted(s)

    play(story)


@pytest.mark.parametrize("whole", [True, False], ids=["parent", "part"])
def test_a_deletion_that_waits_for_its_hook_is_cancelled(whole: bool) -> None:
    async def story(s: Stage) -> None:
        parent, part = await hooked(s)
        await s.commands.action_cancel(WHO, parent if whole else part.id)
        await ended(s, parent, status="CANCELLED" if whole else "FAILED", within_s=15)
        await s.clock.sleep(60)
        assert [n.status for n in await members(s)] == ["ACTIVE"] * 2
        assert s.world.serving(part.node_id)

    play(story)


@pytest.mark.parametrize("answers", [True, False], ids=["answered", "silent"])
@pytest.mark.parametrize("dies", [True, False], ids=["killed", "lives"])
def test_a_hook_on_a_node_that_is_busy(answers: bool, dies: bool) -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 1, document("deletion", "1.1", hooks=HOOK), spec={"reboot_s": 60.0})
        await s.commands.node_op(WHO, (await members(s))[0].id, "rebuild")
        await soon(s, under_way(s, "REBUILD"))
        parent = await ask(s, "scale_in", {})
        (part,) = await parts(s, parent)
        assert (part.status, part.lock_key) == ("WAITING_LIFECYCLE_COMPLETION", None)
        if answers:
            await ask(s, "complete_lifecycle", {"lifecycle_action_token": part.id})
        if dies:
            await s.living[0].kill()
            s.start()
        await ended(s, parent, within_s=90)
        assert not await members(s)

    play(story)


def test_a_cluster_is_deleted_though_a_hook_is_waited_for() -> None:
    async def story(s: Stage) -> None:
        _, part = await hooked(s)
        with pytest.raises(ActionInProgress):
            await s.commands.node_delete(WHO, part.node_id)
        ident = await s.commands.cluster_delete(WHO, "web")
        await ended(s, ident, within_s=60)

    play(story)


def test_add_policy_is_told_by_name() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 1)
        ident = await add_policy(s, "d", document("deletion"))
        await act(s, "policy_attach", {"policy_id": ident})
        await act(s, "policy_attach", {"policy_id": "d"})
        await add_policy(s, "e", document("deletion"))
        row = await act(s, "policy_attach", {"policy_id": "e"}, status="FAILED")
        assert "Only one instance of policy type (senlin.policy.deletion)" in row.status_reason
        await act(s, "policy_update", {"policy_id": "d", "enabled": False})
        await act(s, "policy_detach", {"policy_id": "d"})
        for verb in ("policy_detach", "policy_update", "policy_attach"):
            with pytest.raises(BadRequest):
                await ask(s, verb, {"policy_id": "f"})
        await act(s, "policy_attach", {"policy_id": "e", "enabled": False})

    play(story)
