"""What people have done to single nodes: made, changed, checked, operated, adopted, deleted.

The engine is killed at the points of an update that replaces the copy; whoever comes after it has to
bring it to the same end, with nothing done twice and never two copies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.sim.points import EVERY, TWO_ENGINES, Points
from tests.sim.stage import Stage, policy, stage
from tests.sim.test_deletions import soon

from yaffle.engine.explain import Explainer
from yaffle.engine.queries.node_details import details_of
from yaffle.engine.steps.node_action_plan import plan_of
from yaffle.errors import (
    ActionConflict,
    ActionInProgress,
    BadRequest,
    Conflict,
    DependencyError,
    FeatureNotSupported,
    Forbidden,
    NotFound,
    ResourceInUse,
    ResourceIsLocked,
)
from yaffle.model.authz import LOCAL, Principal, Right
from yaffle.model.incident import PauseKind, PauseScope
from yaffle.store import actions, catalog, incidents, journal
from yaffle.store.tables import budgets
from yaffle.store.tables import profiles as profiles_table
from yaffle.testing import Fault, Rule, run_virtual

SEED = 23
STRANGER = Principal(user="eve", project="theirs", rights=frozenset({Right.READ, Right.WRITE}))
MEMBER = Principal(user="ann", rights=frozenset({Right.READ, Right.WRITE}))


def play(story: Callable[[Stage], Awaitable[None]], *, seed: int = SEED) -> None:
    async def staged() -> None:
        async with stage(seed) as s:
            s.start()
            await story(s)

    run_virtual(staged, seed=seed, cpu_s=60)


async def profiles(s: Stage) -> None:
    """Two that differ in what can be changed, a third that takes a new copy."""
    kind = s.profile.type
    for name, spec in (
        ("old", {"image": "v1"}),
        ("labelled", {"image": "v1", "label": "x"}),
        ("new", {"image": "v2"}),
    ):
        await s.commands.create_profile(name, kind, {"create_s": 3.0, **spec}, by="sim")


async def ended(s: Stage, ident: Any, within_s: float = 120) -> Any:
    """Wait for an action's end and return it."""
    end_s = s.clock.monotonic_s() + within_s
    while True:
        row = await s.store.read(lambda conn: actions.get(conn, ident))
        if row.status in actions.ENDED:
            return row
        assert s.clock.monotonic_s() < end_s, await s.picture()
        await s.clock.sleep(0.5)


async def node(s: Stage, ident: str) -> Any:
    return await s.store.read(lambda conn: catalog.node(conn, ident))


async def alone(s: Stage, name: str = "n1", profile: str = "old") -> Any:
    """Create a node without a cluster and wait until it is there."""
    await profiles(s)
    ident, action = await s.commands.node_create(LOCAL, name=name, profile=profile)
    done = await ended(s, action)
    assert done.status == actions.SUCCEEDED, done
    return ident


async def profile_name(s: Stage, ident: Any) -> str:
    def work(conn: Any) -> str:
        return catalog.profile(conn, catalog.node(conn, ident).profile_id).name

    return str(await s.store.read(work))


# --- create -----------------------------------------------------------------------------------------


def test_a_node_alone_is_made_and_deleted() -> None:
    async def story(s: Stage) -> None:
        ident = await alone(s)
        row = await node(s, ident)
        assert (row.status, row.status_reason) == ("ACTIVE", "Creation succeeded")
        assert (row.cluster_id, row.index, row.name) == (None, -1, "n1")
        assert row.made_us is not None
        assert (await details_of(s.ctx, ident))["image"] == "v1"
        told = " ".join((await Explainer(s.ctx).why(LOCAL, "n1")).lines())
        assert "It belongs to no cluster, so nothing watches it" in told
        assert "policy" not in told
        done = await ended(s, await s.commands.node_delete(LOCAL, "n1"))
        assert done.status == actions.SUCCEEDED
        assert await node(s, ident) is None
        assert not s.world.alive(ident)

    play(story)


def test_a_member_gets_name_and_index_from_its_cluster() -> None:
    async def story(s: Stage) -> None:
        cluster = await s.build(2, policy())
        ident, action = await s.commands.node_create(
            LOCAL, name="mine", profile="profile-web", cluster=cluster
        )
        before = await s.store.read(lambda conn: catalog.cluster(conn, cluster))
        assert before.desired_capacity == 3
        await ended(s, action)
        row = await node(s, ident)
        assert row.cluster_id == cluster
        assert row.index == 3
        assert row.name == "web-3"
        await ended(s, await s.commands.node_delete(LOCAL, ident))
        after = await s.store.read(lambda conn: catalog.cluster(conn, cluster))
        assert after.desired_capacity == 2

    play(story)


def test_what_a_cluster_may_not_want_is_refused_at_once() -> None:
    async def story(s: Stage) -> None:
        cluster = await s.build(2, policy())

        def bound(conn: Any) -> None:
            catalog.set_cluster(conn, cluster, 1, max_size=2, min_size=2)

        await s.store.write(bound)
        with pytest.raises(BadRequest, match="greater than the cluster's max_size"):
            await s.commands.node_create(LOCAL, name="n", profile="profile-web", cluster=cluster)
        victim = (await s.nodes())[0].id
        with pytest.raises(BadRequest, match="less than the cluster's min_size"):
            await s.commands.node_delete(LOCAL, victim)
        with pytest.raises(BadRequest, match="The specified cluster 'nope' could not be found"):
            await s.commands.node_create(LOCAL, name="n", profile="profile-web", cluster="nope")
        with pytest.raises(BadRequest, match="The specified profile 'nope' could not be found"):
            await s.commands.node_create(LOCAL, name="n", profile="nope")

    play(story)


def test_objects_of_others_are_not_there() -> None:
    async def story(s: Stage) -> None:
        ident = await alone(s)
        for verb in (
            s.commands.node_check(STRANGER, ident),
            s.commands.node_delete(STRANGER, ident),
            s.commands.node_recover(STRANGER, ident),
            s.commands.node_op(STRANGER, ident, "reboot"),
            s.commands.node_update(STRANGER, ident, role="x"),
        ):
            with pytest.raises(NotFound, match="could not be found"):
                await verb
        reader = Principal(user="bob", rights=frozenset({Right.READ}))
        with pytest.raises(Forbidden):
            await s.commands.node_delete(reader, ident)

    play(story)


# --- update -----------------------------------------------------------------------------------------


def test_words_are_changed_at_once() -> None:
    async def story(s: Stage) -> None:
        ident = await alone(s)
        action = await s.commands.node_update(
            LOCAL, ident, name="other", role="r", metadata={"a": 1}, tainted=True
        )
        row = await node(s, ident)
        assert (row.name, row.role, row.metadata, row.tainted) == ("other", "r", {"a": 1}, True)
        assert (await ended(s, action)).status == actions.SUCCEEDED
        for nothing in ({}, {"role": "r"}, {"profile": "old"}):
            with pytest.raises(BadRequest, match="No property needs an update"):
                await s.commands.node_update(LOCAL, ident, **nothing)

    play(story)


def test_what_can_be_changed_is_changed_where_it_is() -> None:
    async def story(s: Stage) -> None:
        ident = await alone(s)
        before = (await node(s, ident)).physical_id
        done = await ended(s, await s.commands.node_update(LOCAL, ident, profile="labelled"))
        assert done.status == actions.SUCCEEDED
        row = await node(s, ident)
        assert (row.physical_id, row.status) == (before, "ACTIVE")
        assert row.status_reason == "Update succeeded"
        assert await profile_name(s, ident) == "labelled"
        assert [a.kind for a in s.world.acts] == ["CREATE", "UPDATE"]
        assert [c.spec["label"] for c in s.world.alive(ident)] == ["x"]

    play(story)


def test_a_copy_that_an_update_has_touched_is_not_judged_at_once_also_where_that_failed() -> None:
    async def story(s: Stage) -> None:
        ident = await alone(s)
        began_us = s.clock.now_us()
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:UPDATE"))
        done = await ended(s, await s.commands.node_update(LOCAL, ident, profile="labelled"))
        assert done.status == actions.FAILED
        row = await node(s, ident)
        assert row.status == "ERROR"
        assert row.grace_us >= began_us, "it may be starting again by now"

    play(story)


def test_a_change_may_take_longer_than_a_creation_and_not_for_ever() -> None:
    async def story(s: Stage) -> None:
        settings = s.ctx.settings
        ident = await alone(s)
        s.plan.rules.append(Rule(fault=Fault.ERROR, call="submit:UPDATE"))
        action = await s.commands.node_update(LOCAL, ident, profile="labelled")
        await s.clock.sleep(2 * settings.action_timeout)
        under_way = await s.store.read(lambda conn: actions.get(conn, action))
        assert under_way.status not in actions.ENDED, "a resize copies a disk for longer than that"
        done = await ended(s, action, within_s=settings.update_timeout)
        assert done.status == actions.FAILED
        assert "out of time" in done.status_reason
        # What has to be made anew is bound as any creation is.
        s.plan.rules.append(Rule(fault=Fault.ERROR, call="submit:CREATE"))
        action = await s.commands.node_update(LOCAL, ident, profile="new")
        done = await ended(s, action, within_s=2 * settings.action_timeout)
        assert done.status == actions.FAILED

    play(story)


def test_what_is_marked_is_replaced_by_an_update() -> None:
    async def story(s: Stage) -> None:
        ident = await alone(s)
        await s.commands.node_mark(LOCAL, ident, reason="its disk clicks")
        done = await ended(s, await s.commands.node_update(LOCAL, ident, profile="labelled"))
        assert done.status == actions.SUCCEEDED
        assert [a.kind for a in s.world.acts] == ["CREATE", "DELETE", "CREATE"]
        assert (await node(s, ident)).mark_reason is None

    play(story)


def test_another_type_is_refused() -> None:
    async def story(s: Stage) -> None:
        ident = await alone(s)
        await s.store.write(_other_type)
        with pytest.raises(BadRequest, match="different profile type, operation aborted"):
            await s.commands.node_update(LOCAL, ident, profile="new")

    def _other_type(conn: Any) -> None:
        other = profiles_table.update().where(profiles_table.c.name == "new")
        conn.execute(other.values(type="other-1.0"))

    play(story)


async def update(fatal: int | None, *, is_alone: bool) -> tuple[list[str], list[str]]:
    """Give a node another image, killing the engine at point `fatal`; return points and effects."""
    async with stage(SEED, alone=is_alone) as s:
        first = s.start()
        ident = await alone(s)
        before = len(s.world.acts)
        points = Points(first, fatal)
        action = await s.commands.node_update(LOCAL, ident, profile="new")
        if fatal is None:
            with pytest.raises(ResourceInUse, match="still referenced"):
                await s.commands.delete_profile("new", by="op")
        async with asyncio.timeout(900):
            if fatal is not None:
                await points.reached.wait()
                await first.kill()
                s.start()
            done = await ended(s, action, 300)
        names = list(points.names)
        row = await node(s, ident)
        assert done.status == actions.SUCCEEDED, done.status_reason
        assert (row.status, row.status_reason) == ("ACTIVE", "Update succeeded")
        assert await profile_name(s, ident) == "new"
        (copy,) = s.world.alive(ident)
        assert copy.spec["image"] == "v2"
        assert copy.physical_id == row.physical_id
        return names, [f"{a.kind} {a.physical_id}" for a in s.world.acts[before:]]


@TWO_ENGINES
def test_a_replacing_update_killed_at_every_point(alone: bool) -> None:
    def walked(fatal: int | None) -> tuple[list[str], list[str]]:
        return run_virtual(lambda: update(fatal, is_alone=alone), seed=SEED, cpu_s=60)

    names, undisturbed = walked(None)
    assert [e.split()[0] for e in undisturbed] == ["DELETE", "CREATE"]
    wrong = {}
    for fatal, name in list(enumerate(names))[:: max(1, EVERY[alone] // 4)]:
        _, effects = walked(fatal)
        if effects != undisturbed:
            wrong[f"{fatal} {name}"] = effects
    assert not wrong, f"instead of {undisturbed}"


def test_without_proof_of_the_deletion_nothing_is_made() -> None:
    async def story(s: Stage) -> None:
        ident = await alone(s)
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:DELETE"))
        done = await ended(s, await s.commands.node_update(LOCAL, ident, profile="new"), 400)
        assert done.status == actions.FAILED
        row = await node(s, ident)
        assert row.status == "ERROR"
        assert row.status_reason.startswith("Update failed: deletion not confirmed")
        assert await profile_name(s, ident) == "old"
        assert [c.spec["image"] for c in s.world.alive(ident)] == ["v1"]

    play(story)


def test_an_update_that_cannot_make_its_copy_is_healed_with_the_old_profile() -> None:
    async def story(s: Stage) -> None:
        await s.build(2, policy(actions=[{"name": "RECREATE", "timeout": 60}]))
        await profiles(s)
        victim = s.node_ids()[0]
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:CREATE", times=1))
        done = await ended(s, await s.commands.node_update(LOCAL, victim, profile="new"), 400)
        assert done.status == actions.FAILED
        await s.until(s.all_well, 300, "the node was healed")
        assert await profile_name(s, victim) == "profile-web"
        assert [c.spec["image"] for c in s.world.alive(victim)] == [""]

    play(story)


def test_no_incident_is_made_of_an_update() -> None:
    async def story(s: Stage) -> None:
        await s.build(2, policy())
        await s.commands.create_profile(
            "slow", s.profile.type, {"create_s": 60.0, "image": "v2"}, by="sim"
        )
        victim = s.node_ids()[0]
        done = await ended(s, await s.commands.node_update(LOCAL, victim, profile="slow"), 400)
        assert done.status == actions.SUCCEEDED
        await s.until(s.all_well, 120, "it is watched again")
        assert await s.store.read(lambda conn: incidents.last_of(conn, victim)) is None

    play(story)


@pytest.mark.parametrize("when", ["DELETE", "CREATE"])
def test_deleted_while_it_is_updated(when: str) -> None:
    async def story(s: Stage) -> None:
        ident = await alone(s)
        update = await s.commands.node_update(LOCAL, ident, profile="new")

        async def there() -> bool:
            s.world.settle()
            return any(j.kind == when and j.state == "running" for j in s.world.jobs[1:])

        await soon(s, there)
        with pytest.raises(ActionInProgress, match="is in status UPDATING"):
            await s.commands.node_delete(LOCAL, ident)
        done = await ended(s, await s.commands.node_delete(LOCAL, ident, force=True), 300)
        assert done.status == actions.SUCCEEDED
        assert (await ended(s, update)).status in actions.ENDED
        assert await node(s, ident) is None
        await s.clock.sleep(60)
        assert not s.world.alive(ident)

    play(story)


def test_an_update_that_is_cancelled_leaves_a_node_that_can_be_recovered() -> None:
    async def story(s: Stage) -> None:
        ident = await alone(s)
        update = await s.commands.node_update(LOCAL, ident, profile="new")

        async def deleting() -> bool:
            s.world.settle()
            return any(j.kind == "DELETE" and j.state == "running" for j in s.world.jobs)

        await soon(s, deleting)
        await s.commands.action_cancel(LOCAL, update)
        assert (await ended(s, update)).status == actions.CANCELLED
        row = await node(s, ident)
        assert row.status == "ERROR"
        assert await profile_name(s, ident) == "old"
        done = await ended(s, await s.commands.node_recover(LOCAL, ident))
        assert done.status == actions.SUCCEEDED
        assert [c.spec["image"] for c in s.world.alive(ident)] == ["v1"]

    play(story)


def test_deleted_twice_is_one_node_less() -> None:
    async def story(s: Stage) -> None:
        cluster = await s.build(3, policy())
        victim = s.node_ids()[0]
        first = await s.commands.node_delete(LOCAL, victim)
        with pytest.raises(ActionInProgress):
            await s.commands.node_delete(LOCAL, victim)
        assert await s.commands.node_delete(LOCAL, victim, force=True) == first
        assert (await ended(s, first)).status == actions.SUCCEEDED
        after = await s.store.read(lambda conn: catalog.cluster(conn, cluster))
        assert after.desired_capacity == 2

    play(story)


# --- conflicts --------------------------------------------------------------------------------------


def test_two_errands_do_not_run_at_once() -> None:
    async def story(s: Stage) -> None:
        ident = await alone(s)
        first = await s.commands.node_check(LOCAL, ident)
        with pytest.raises((ActionConflict, ResourceIsLocked)):
            await s.commands.node_update(LOCAL, ident, role="x")
        waiting = await s.commands.node_op(LOCAL, ident, "reboot", {"type": "soft"})
        assert (await ended(s, first)).status == actions.SUCCEEDED
        assert (await ended(s, waiting)).status == actions.SUCCEEDED
        assert [a.kind for a in s.world.acts][-2:] == ["REBOOT", "REBOOT"]

    play(story)


# --- check ------------------------------------------------------------------------------------------


def test_a_check_says_how_it_is() -> None:
    async def story(s: Stage) -> None:
        ident = await alone(s)
        assert (await ended(s, await s.commands.node_check(LOCAL, ident))).status == "SUCCEEDED"
        row = await node(s, ident)
        assert (row.status, row.status_reason) == ("ACTIVE", "Check: Node is ACTIVE.")
        s.world.kill(ident)
        done = await ended(s, await s.commands.node_check(LOCAL, ident))
        assert done.status == actions.SUCCEEDED, "that it is not well is an answer"
        row = await node(s, ident)
        assert row.status == "ERROR"
        assert row.status_reason.startswith("Check: Node is not ACTIVE.")

    play(story)


def test_a_check_erases_no_mark() -> None:
    async def story(s: Stage) -> None:
        ident = await alone(s)
        await s.commands.node_mark(LOCAL, ident, reason="its disk clicks")
        await ended(s, await s.commands.node_check(LOCAL, ident))
        row = await node(s, ident)
        assert row.mark_reason == "its disk clicks"
        assert row.status == "WARNING"

    play(story)


def test_a_check_that_passes_outweighs_nothing() -> None:
    """A mark, and a verdict that took several looks, stay: the status says so still."""

    async def story(s: Stage) -> None:
        def doubted(conn: Any) -> None:
            sick = {"health": "unhealthy", "status": "WARNING", "status_reason": "down"}
            catalog.set_node(conn, ident, 1, **sick)

        ident = await alone(s)
        await s.store.write(doubted)
        for _ in range(2):
            await ended(s, await s.commands.node_check(LOCAL, ident))
            row = await node(s, ident)
            assert row.status == "WARNING"
            assert row.status_reason == (
                "Check: Physical object is ACTIVE but the node status was WARNING: was down"
            )

    play(story)


def test_what_cannot_be_asked_is_not_bad() -> None:
    async def story(s: Stage) -> None:
        ident = await alone(s)
        s.plan.rules.append(Rule(fault=Fault.HANG, call="read"))
        done = await ended(s, await s.commands.node_check(LOCAL, ident))
        assert done.status == actions.FAILED
        row = await node(s, ident)
        assert (row.status, row.status_reason) == ("ACTIVE", "Creation succeeded")

    play(story)


def test_a_check_asks_as_the_policy_does() -> None:
    """A member that runs and serves nobody is not well, though the backend knows nothing of it."""

    async def story(s: Stage) -> None:
        document = policy(node_update_timeout=600)
        document["properties"]["recovery"]["mode"] = "observe"
        await s.build(2, document)
        victim = s.node_ids()[0]
        s.world.hang(victim)
        done = await ended(s, await s.commands.node_check(LOCAL, victim))
        # Its status is the watch's again a moment later.
        (look,) = await s.store.read(lambda conn: journal.of_action(conn, done.id))
        assert look.result == "sick"
        assert look.data["gone"] is False

    play(story)


# --- operations -------------------------------------------------------------------------------------


def test_operations_of_the_profile() -> None:
    async def story(s: Stage) -> None:
        ident = await alone(s)
        action = await s.commands.node_op(LOCAL, ident, "reboot", {"type": "SOFT"})

        async def operating() -> bool:
            return (await node(s, ident)).status == "OPERATING"

        await soon(s, operating)
        assert (await node(s, ident)).status_reason == "Operation 'reboot' in progress"
        assert (await ended(s, action)).status == actions.SUCCEEDED
        row = await node(s, ident)
        assert (row.status, row.status_reason) == ("ACTIVE", "Operation 'reboot' succeeded")
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:REBOOT"))
        assert (await ended(s, await s.commands.node_op(LOCAL, ident, "reboot"))).status == "FAILED"
        row = await node(s, ident)
        assert row.status == "ERROR"
        assert row.status_reason.startswith("Operation 'reboot' failed: ")

    play(story)


@pytest.mark.parametrize("name", ["dance", "create", "kill", "update", "REBOOT"])
def test_operations_that_are_not_offered(name: str) -> None:
    async def story(s: Stage) -> None:
        ident = await alone(s)
        said = (
            f"The requested operation '{name}' is not supported by the profile type"
            " 'yaffle.scripted-1.0'."
        )
        with pytest.raises(BadRequest, match=said):
            await s.commands.node_op(LOCAL, ident, name)
        with pytest.raises(BadRequest, match="HARD"):
            await s.commands.node_op(LOCAL, ident, "reboot", {"type": "KIND"})

    play(story)


def test_an_operation_that_could_make_a_second_copy_is_fenced_first() -> None:
    async def story(s: Stage) -> None:
        ident = await alone(s)
        done = await ended(s, await s.commands.node_op(LOCAL, ident, "reboot"))
        for name, path in (("REBOOT", ["act"]), ("EVACUATE", ["fence", "act"])):
            moved = replace(done, inputs={"operation": name, "params": {}})
            _, (rung,) = plan_of(s.ctx, moved)
            assert (rung.action.name, list(rung.path)) == (name, path)

    play(story)


# --- recover ----------------------------------------------------------------------------------------


def test_a_node_alone_is_recovered() -> None:
    async def story(s: Stage) -> None:
        ident = await alone(s)
        made_us = (await node(s, ident)).made_us
        s.world.kill(ident)
        action = await s.commands.node_recover(LOCAL, ident, {"event": "SHUTDOWN"})
        row = await s.store.read(lambda conn: actions.get(conn, action))
        assert row.inputs["event"] == "SHUTDOWN"
        assert row.data == {"health": {"recover_action": [{"name": "RECREATE"}]}}

        async def recovering() -> bool:
            return (await node(s, ident)).status == "RECOVERING"

        await soon(s, recovering)
        assert (await ended(s, action)).status == actions.SUCCEEDED
        row = await node(s, ident)
        assert (row.status, row.status_reason) == ("ACTIVE", "Recovery succeeded")
        assert row.made_us == made_us
        assert len(s.world.alive(ident)) == 1
        done = await ended(s, await s.commands.node_recover(MEMBER, ident, {"operation": "reboot"}))
        assert done.data["health"]["recover_action"] == [{"name": "REBOOT"}]
        assert s.world.acts[-1].kind == "REBOOT"

    play(story)


def test_a_stop_and_the_budget_bind_a_node_alone_too() -> None:
    async def story(s: Stage) -> None:
        ident = await alone(s)
        await s.commands.pause(
            PauseKind.STOP, PauseScope.ALL, "", owner="op", reason="storm", for_s=None
        )
        with pytest.raises(Conflict, match="stop by op: storm"):
            await s.commands.node_recover(LOCAL, ident)
        assert not await s.store.read(lambda conn: actions.unfinished(conn, node_id=ident))
        await s.commands.lift_stop(by="op")
        await ended(s, await s.commands.node_recover(LOCAL, ident, {"operation": "reboot"}))
        empty = budgets.update().values(tokens=0.0, updated_us=s.clock.now_us())
        await s.store.write(lambda conn: conn.execute(empty).rowcount)
        with pytest.raises(Conflict, match="cannot be recovered now: rate"):
            await s.commands.node_recover(LOCAL, ident, {"operation": "reboot"})
        assert not await s.store.read(lambda conn: actions.unfinished(conn, node_id=ident))

    play(story)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"foo": 1}, r"Action parameter \['foo'\] is not recognizable\."),
        (
            {"operation": "FOO"},
            "Operation value 'FOO' has to be one of the following: REBOOT, REBUILD, RECREATE.",
        ),
        ({"operation": "reboot", "operation_params": {"type": "KIND"}}, "SOFT"),
    ],
)
def test_recoveries_that_make_no_sense(params: dict[str, object], said: str) -> None:
    async def story(s: Stage) -> None:
        ident = await alone(s)
        with pytest.raises(BadRequest, match=said):
            await s.commands.node_recover(LOCAL, ident, params)

    play(story)


def test_consent_to_a_second_copy_needs_its_own_right() -> None:
    async def story(s: Stage) -> None:
        ident = await alone(s)
        with pytest.raises(Forbidden):
            await s.commands.node_recover(MEMBER, ident, {"force_recreate": True})
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:DELETE", times=1))
        action = await s.commands.node_recover(
            LOCAL, ident, {"force_recreate": True, "delete_timeout": 5}
        )
        done = await ended(s, action)
        assert done.status == actions.SUCCEEDED, done.status_reason
        assert done.inputs["snapshot"]["recovery"]["node_delete_timeout_s"] == 5.0

    play(story)


# --- adoption ---------------------------------------------------------------------------------------


def stray(s: Stage, name: str = "stray-1") -> None:
    s.world.appear(name, s.profile.validate({"image": "theirs"}))


def test_adopted_and_deleted_like_any_other() -> None:
    async def story(s: Stage) -> None:
        stray(s)
        kind = s.profile.type
        preview = await s.commands.node_preview(LOCAL, identity="stray-1", kind=kind)
        assert (preview["type"], preview["version"]) == ("yaffle.scripted", "1.0")
        assert preview["properties"]["image"] == "theirs"  # type: ignore[index]
        ident = await s.commands.node_adopt(
            LOCAL, identity="stray-1", kind=kind, name="ad", overrides={"label": "mine"}
        )
        row = await node(s, ident)
        assert (row.status, row.status_reason) == ("ACTIVE", "Node adopted successfully")
        assert (row.physical_id, row.cluster_id) == ("stray-1", None)
        assert await profile_name(s, ident) == "prof-ad"
        with pytest.raises(ResourceInUse, match="already"):
            await s.commands.node_adopt(LOCAL, identity="stray-1", kind=kind)
        await ended(s, await s.commands.node_check(LOCAL, ident))
        assert (await node(s, ident)).status == "ACTIVE"
        done = await ended(s, await s.commands.node_recover(LOCAL, ident))
        assert done.status == actions.SUCCEEDED
        assert [c.spec["label"] for c in s.world.alive(ident)] == ["mine"]
        await ended(s, await s.commands.node_delete(LOCAL, ident))
        assert not s.world.alive(ident)

    play(story)


def test_an_adoption_that_was_cut_short_can_be_done_again() -> None:
    async def story(s: Stage) -> None:
        stray(s)
        kind = s.profile.type
        s.plan.rules.append(Rule(fault=Fault.LOSE, call="adopt", times=1))
        with pytest.raises(DependencyError, match="the answer was lost"):
            await s.commands.node_adopt(LOCAL, identity="stray-1", kind=kind)
        assert not await s.nodes()
        ident = await s.commands.node_adopt(LOCAL, identity="stray-1", kind=kind, name="ad")
        assert [c.physical_id for c in s.world.alive(ident)] == ["stray-1"]

    play(story)


def test_what_cannot_be_adopted() -> None:
    async def story(s: Stage) -> None:
        kind = s.profile.type
        ident = await alone(s)
        physical_id = (await node(s, ident)).physical_id
        with pytest.raises(BadRequest, match="'ghost' could not be found"):
            await s.commands.node_adopt(LOCAL, identity="ghost", kind=kind)
        with pytest.raises(FeatureNotSupported, match="it is node"):
            await s.commands.node_adopt(LOCAL, identity=physical_id, kind=kind)
        with pytest.raises(BadRequest, match=r"profile_type 'bogus-1\.0' could not be found"):
            await s.commands.node_preview(LOCAL, identity="x", kind="bogus-1.0")

    play(story)
