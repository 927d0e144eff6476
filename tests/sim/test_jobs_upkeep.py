"""Members looked at, recovered and operated: what a person asks for meets what the policy does."""

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

from yaffle.errors import BadRequest
from yaffle.model.incident import PauseKind, PauseScope
from yaffle.testing import Fault, Rule

RECREATE = [{"name": "RECREATE", "timeout": 60}]


async def watched(s: Stage, size: int = 3, **changed: Any) -> list[str]:
    """A cluster under a health policy, its grace over; return its nodes by index."""
    await a_cluster(s, size, policy(**changed))
    await s.clock.sleep(30)
    return [n.id for n in await members(s)]


# --- check -----------------------------------------------------------------------------------------


def test_checked() -> None:
    async def story(s: Stage) -> None:
        nodes = await watched(s, mode="observe")
        s.world.kill(nodes[1])
        await s.clock.sleep(30)
        row = await act(s, "check")
        assert [p.action for p in await parts(s, row.id)] == ["NODE_CHECK"] * 3
        assert [n.status for n in await members(s)] == ["ACTIVE", "ERROR", "ACTIVE"]
        assert (await the_cluster(s)).status == "WARNING"

    play(story)


def test_a_check_waits_for_a_recovery_and_stops_none() -> None:
    async def story(s: Stage) -> None:
        nodes = await watched(s, actions=RECREATE)
        s.world.kill(nodes[0])
        await soon(s, under_way(s, "CREATE"))
        row = await act(s, "check")
        every = await all_actions(s)
        assert [a.status for a in every if a.action == "NODE_RECOVER"] == ["SUCCEEDED"]
        assert row.outputs == {}
        await as_wanted(s)

    play(story)


def test_an_empty_cluster_is_checked_and_recovered_at_once() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 0)
        for verb in ("check", "recover"):
            ident = await ask(s, verb, {})
            assert (await action_of(s, ident)).status == "SUCCEEDED"

    play(story)


# --- recover ---------------------------------------------------------------------------------------


def test_only_who_is_not_well_is_recovered() -> None:
    async def story(s: Stage) -> None:
        nodes = await watched(s, mode="observe")
        s.world.hang(nodes[2])
        await s.clock.sleep(30)
        row = await act(s, "recover", {"operation": "REBUILD"})
        assert [p.node_id for p in await parts(s, row.id)] == [nodes[2]]
        assert [a.kind for a in s.world.acts if a.kind != "CREATE"] == ["REBUILD"] * 2
        await as_wanted(s)

    play(story)


@pytest.mark.parametrize("check", [True, False])
def test_check_first_where_that_is_asked_for(check: bool) -> None:
    """A node that died a moment ago is not known to be ill yet."""

    async def story(s: Stage) -> None:
        nodes = await watched(s, 2, mode="observe")
        s.world.kill(nodes[0])
        row = await act(s, "recover", {"check": check})
        recovered = [p.node_id for p in await parts(s, row.id) if p.action == "NODE_RECOVER"]
        assert recovered == ([nodes[0]] if check else [])

    play(story)


@pytest.mark.parametrize("change", [2, -2])
def test_check_capacity_mends_the_number(change: int) -> None:
    async def story(s: Stage) -> None:
        from sqlalchemy import update

        from yaffle.store.tables import clusters

        await watched(s, 3, mode="observe")
        await s.store.write(
            lambda c: c.execute(update(clusters).values(desired_capacity=3 + change))
        )
        await act(s, "recover")
        assert len(await members(s)) == 3
        await act(s, "recover", {"check_capacity": True})
        assert len(await members(s)) == 3 + change
        await as_wanted(s)

    play(story)


def test_a_recovery_that_fails_is_told_and_the_number_is_mended_all_the_same() -> None:
    async def story(s: Stage) -> None:
        nodes = await watched(s, mode="observe")
        await s.commands.node_delete(WHO, nodes[2])
        await settled(s)
        from sqlalchemy import update

        from yaffle.store.tables import clusters

        await s.store.write(lambda c: c.execute(update(clusters).values(desired_capacity=3)))
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:REBUILD"))
        s.world.hang(nodes[0])
        await s.clock.sleep(30)
        row = await act(
            s, "recover", {"operation": "REBUILD", "check_capacity": True}, status="FAILED"
        )
        assert "1 of 2 parts did not succeed" in row.status_reason
        assert len(await members(s)) == 3

    play(story)


def test_a_recovery_of_the_policy_becomes_a_part() -> None:
    async def story(s: Stage) -> None:
        nodes = await watched(s, actions=RECREATE)
        s.world.kill(nodes[0])
        await soon(s, under_way(s, "CREATE"))
        ident = await ask(s, "recover", {})
        (part,) = await parts(s, ident)
        assert part.cause == "Health Policy"
        assert (await action_of(s, ident)).status == "WAITING"
        await ended(s, ident)
        every = [a for a in await all_actions(s) if a.action == "NODE_RECOVER"]
        assert len(every) == 1
        await as_wanted(s)

    play(story)


def test_a_recovery_left_by_a_parent_that_has_ended_becomes_a_part_of_the_next() -> None:
    async def story(s: Stage) -> None:
        nodes = await watched(s, actions=RECREATE)
        s.world.kill(nodes[0])
        await soon(s, under_way(s, "CREATE"))
        from tests.sim.jobs import set_action

        (running,) = [a for a in await all_actions(s) if a.action == "NODE_RECOVER"]
        await set_action(s, running.id, parent_id="gone")
        ident = await ask(s, "recover", {})
        assert [p.id for p in await parts(s, ident)] == [running.id]
        assert (await action_of(s, ident)).status == "WAITING"
        await ended(s, ident)

    play(story)


def test_a_member_that_is_busy_is_looked_at_before_it_is_recovered() -> None:
    """It is not ACTIVE because somebody works on it, which is no illness."""

    async def story(s: Stage) -> None:
        await a_cluster(s, 2, policy(mode="observe"), spec={"reboot_s": 20.0})
        await s.clock.sleep(30)
        nodes = [n.id for n in await members(s)]
        await s.commands.node_op(WHO, nodes[0], "rebuild")
        await soon(s, under_way(s, "REBUILD"))
        assert (await members(s))[0].status == "OPERATING"
        await act(s, "recover")
        assert [a.kind for a in s.world.acts if a.node_id == nodes[0]] == [
            "CREATE",
            "REBUILD",
            "REBUILD",
        ]
        await as_wanted(s)

    play(story)


async def sick(s: Stage, nodes: list[str]) -> None:
    for ident in nodes:
        s.world.hang(ident)  # type: ignore[arg-type]
    await s.clock.sleep(30)


def test_a_person_overrides_the_storm_limit_but_not_the_cap() -> None:
    async def story(s: Stage) -> None:
        limits = {"max_unhealthy": "1", "max_in_flight": 1}
        nodes = await watched(s, 4, actions=RECREATE, limits=limits)
        s.max_in_flight = 1
        await sick(s, nodes[:3])
        assert not [a for a in await all_actions(s) if a.action == "NODE_RECOVER"]
        ident = await ask(s, "recover", {})
        most = 0
        while (await action_of(s, ident)).end_us is None:
            states = [p.status for p in await parts(s, ident)]
            most = max(most, states.count("READY") + states.count("RUNNING"))
            await s.clock.sleep(0.5)
        await ended(s, ident)
        assert most == 1
        await as_wanted(s)

    play(story)


def test_a_stop_is_obeyed_until_it_is_lifted() -> None:
    async def story(s: Stage) -> None:
        nodes = await watched(s, mode="observe", actions=RECREATE)
        await s.commands.pause(
            PauseKind.STOP, PauseScope.ALL, "", owner="op", reason="x", for_s=None
        )
        await sick(s, nodes[:1])
        ident = await ask(s, "recover", {})
        await s.clock.sleep(60)
        assert [p.status for p in await parts(s, ident)] == ["WAITING"]
        await s.commands.lift_stop(by="op")
        await ended(s, ident)
        await as_wanted(s)

    play(story)


def test_nothing_else_is_healed_while_a_user_takes_nodes_away() -> None:
    async def story(s: Stage) -> None:
        from tests.sim.jobs import document

        await a_cluster(s, 4, document("deletion", grace_period=60), policy(actions=RECREATE))
        await s.clock.sleep(30)
        ident = await ask(s, "scale_in", {})
        chosen = (await action_of(s, ident)).data["remove"]["nodes"]  # type: ignore[index,call-overload]
        victim = next(n.id for n in await members(s) if n.id not in chosen)
        s.world.kill(victim)
        await s.clock.sleep(45)
        row = next(n for n in await members(s) if n.id == victim)
        assert (row.health, row.status) == ("unhealthy", "WARNING")
        await ended(s, ident)
        await s.until(lambda: well(s), 60, "healed once the user was done")
        await settled(s)
        await as_wanted(s)

    async def well(s: Stage) -> bool:
        return all(n.status == "ACTIVE" for n in await members(s))

    play(story)


# --- operations ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("filters", "chosen"),
    [
        pytest.param({}, {0, 1, 2}, id="all"),
        pytest.param({"role": "db"}, {1}, id="role"),
        pytest.param({"status": "ERROR"}, set(), id="status"),
        pytest.param({"role": "db", "status": "ACTIVE"}, {1}, id="both"),
    ],
)
def test_operated(filters: dict[str, str], chosen: set[int]) -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 3)
        nodes = [n.id for n in await members(s)]
        await ended(s, await s.commands.node_update(WHO, nodes[1], role="db"))
        s.world.acts.clear()
        if not chosen:
            with pytest.raises(BadRequest):
                await s.commands.cluster_op(WHO, "web", "rebuild", filters, {})
            return
        ident = await s.commands.cluster_op(WHO, "web", "rebuild", filters, {})
        await ended(s, str(ident))
        assert {a.node_id for a in s.world.acts} == {nodes[i] for i in chosen}
        await as_wanted(s)

    play(story)


def test_an_operation_that_fails_somewhere() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 3)
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:REBUILD", times=1))
        ident = await s.commands.cluster_op(WHO, "web", "rebuild", {}, {})
        await ended(s, str(ident), status="FAILED")
        assert sorted(n.status for n in await members(s)) == ["ACTIVE", "ACTIVE", "ERROR"]
        assert (await the_cluster(s)).status == "WARNING"

    play(story)
