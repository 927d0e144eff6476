"""Parents and their parts: time-outs, cancelling, clocks, a database that is away, spurious calls."""

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
    set_action,
    settled,
    soon,
    the_cluster,
    under_way,
)
from tests.sim.stage import Stage, policy

from yaffle.errors import ActionImmutable, NotFound
from yaffle.store import actions, incidents
from yaffle.testing import Fault, Rule

# --- time-outs -------------------------------------------------------------------------------------


def test_a_parent_that_takes_too_long_fails_and_stops_its_parts() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 2, timeout=30, spec={"create_s": 3.0})
        s.plan.rules.append(Rule(fault=Fault.HANG, call="*:CREATE"))
        ident = await ask(s, "scale_out", {"count": 2})
        row = await ended(s, ident, within_s=40, status="FAILED")
        assert row.status_reason == "Timeout: not over within 30 s"
        assert 30e6 <= (row.end_us or 0) - (row.start_us or 0) < 36e6
        assert (await the_cluster(s)).status == "WARNING"
        await settled(s)
        assert [n.status for n in await members(s)] == ["ACTIVE", "ACTIVE", "ERROR", "ERROR"]
        s.plan.rules.clear()
        await act(s, "scale_in", {"count": 2})
        await as_wanted(s)

    play(story)


def test_parts_that_never_began_are_ended_with_their_parent() -> None:
    """More nodes than workers: the rest has not begun when the time is over."""

    async def story(s: Stage) -> None:
        await a_cluster(s, 40, timeout=20, spec={"create_s": 60.0}, wait=False)
        (create,) = await all_actions_of(s, "CLUSTER_CREATE")
        await ended(s, create, within_s=40, status="FAILED")
        await settled(s)
        assert {n.status for n in await members(s)} == {"ERROR"}
        # What the backend was asked for may still come to be; the deletion finds it.
        await s.clock.sleep(60)
        await ended(s, await s.commands.cluster_delete(WHO, "web"))
        assert not any(s.world.alive(i) for i in s.node_ids())

    play(story)


async def all_actions_of(s: Stage, action: str) -> list[str]:
    return [a.id for a in await all_actions(s) if a.action == action]


def test_a_pause_longer_than_the_time_allowed() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 2, document("deletion", grace_period=600), timeout=30)
        ident = await ask(s, "scale_in", {})
        await s.clock.sleep(590)
        assert len(await members(s)) == 2
        await ended(s, ident, within_s=60)
        assert len(await members(s)) == 1
        assert (await the_cluster(s)).status == "ACTIVE"

    play(story)


# --- cancelling ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("force", "dies"),
    [
        pytest.param(True, False, id="force-lives"),
        pytest.param(False, False, id="plain-lives"),
        pytest.param(False, True, id="plain-killed"),
    ],
)
@pytest.mark.parametrize("verb", ["scale_out", "scale_in", "update", "recover", "op"])
def test_a_parent_is_cancelled_while_its_parts_run(verb: str, force: bool, dies: bool) -> None:
    async def story(s: Stage) -> None:
        await a_cluster(
            s, 2, policy(mode="observe"), spec={"create_s": 8.0, "delete_s": 8.0, "reboot_s": 8.0}
        )
        await s.clock.sleep(30)
        ident, kind = await begun(s, verb)
        await soon(s, under_way(s, kind))
        await s.commands.action_cancel(WHO, ident, force=force)
        if force:
            assert (await action_of(s, ident)).status == "CANCELLED"
            # What is making a copy is not let go before it is over.
            left = await s.store.read(actions.unfinished)
            assert {a.action for a in left} <= ({"NODE_CREATE"} if verb == "scale_out" else set())
        if dies:
            await s.living[0].kill()
            s.start()
        await ended(s, ident, within_s=60, status="CANCELLED")
        await settled(s)
        with pytest.raises(ActionImmutable):
            await s.commands.action_cancel(WHO, ident)
        assert (await the_cluster(s)).status in {"ACTIVE", "WARNING"}
        for n in await members(s):
            assert not await s.store.read(lambda c, n=n: incidents.open_of(c, n.id)) or (
                n.health == "unhealthy"
            )
        # Taken by force from whoever was at it, the backend goes on with what it was asked for.
        await s.clock.sleep(10 if force else 0)
        await ended(s, await s.commands.cluster_delete(WHO, "web"))
        await s.clock.sleep(30)
        assert not any(s.world.alive(i) for i in s.node_ids())

    play(story)


async def begun(s: Stage, verb: str) -> tuple[str, str]:
    """Ask for something that takes its time; return the action and what the backend is to do."""
    match verb:
        case "update":
            await s.commands.create_profile(
                "new", s.profile.type, {"image": "2", "create_s": 8.0, "delete_s": 8.0}, by="op"
            )
            return str(await s.commands.cluster_update(WHO, "web", profile="new")), "DELETE"
        case "recover":
            s.world.hang((await members(s))[0].id)
            await s.clock.sleep(20)
            return await ask(s, verb, {"operation": "REBUILD"}), "REBUILD"
        case "op":
            return str(await s.commands.cluster_op(WHO, "web", "rebuild", {}, {})), "REBUILD"
        case "scale_in":
            return await ask(s, verb, {}), "DELETE"
        case _:
            return await ask(s, verb, {"count": 2}), "CREATE"


@pytest.mark.parametrize("force", [True, False], ids=["force", "plain"])
def test_a_parent_is_cancelled_in_the_moment_in_which_it_was_asked_for(force: bool) -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 2)
        before = len(s.plan.calls)
        s.living[0].gate.freeze()
        ident = await ask(s, "scale_in", {})
        await s.commands.action_cancel(WHO, ident, force=force)
        s.living[0].gate.thaw()
        await ended(s, ident, within_s=30, status="CANCELLED")
        await settled(s)
        assert [n.status for n in await members(s)] == ["ACTIVE", "ACTIVE"]
        assert not [c for _, c, _ in s.plan.calls[before:] if c.startswith("submit")]

    play(story)


@pytest.mark.parametrize("status", ["READY", "RUNNING", "WAITING"])
@pytest.mark.parametrize("force", [True, False], ids=["force", "plain"])
def test_a_parent_is_cancelled_in_each_state(status: str, force: bool) -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 2, spec={"create_s": 8.0})
        ident = await ask(s, "scale_out", {})
        await soon(s, under_way(s, "CREATE"))
        await s.living[0].kill()
        await set_action(s, ident, status=status)
        await s.commands.action_cancel(WHO, ident, force=force)
        s.start()
        await ended(s, ident, within_s=60, status="CANCELLED")
        await settled(s)
        assert len(await members(s)) == 3

    play(story)


@pytest.mark.parametrize("force", [True, False], ids=["force", "plain"])
def test_a_part_is_cancelled_and_its_parent_fails(force: bool) -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 1, spec={"create_s": 8.0})
        ident = await ask(s, "scale_out", {"count": 2})
        await soon(s, under_way(s, "CREATE", 2))
        (part, _) = await parts(s, ident)
        await s.commands.action_cancel(WHO, part.id, force=force)
        # What is making a copy comes to its end, also by force.
        await ended(s, ident, within_s=60)
        await settled(s)

    play(story)


def test_a_recovery_that_is_cancelled_leaves_a_node_that_is_healed_again() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 3, policy(actions=[{"name": "RECREATE", "timeout": 60}]))
        await s.clock.sleep(30)
        s.plan.rules.append(Rule(fault=Fault.HANG, call="fence", times=3))
        victim = (await members(s))[0].id
        s.world.hang(victim)

        async def fencing() -> bool:
            return any(call == "fence" for _, call, _ in s.plan.calls)

        await soon(s, fencing)
        (recovery,) = await all_actions_of(s, "NODE_RECOVER")
        await s.commands.action_cancel(WHO, recovery, force=True)
        await s.until(s.all_well, 300, "healed by another recovery")
        await settled(s)

    play(story)


def test_nobody_cancels_what_there_is_not() -> None:
    async def story(s: Stage) -> None:
        with pytest.raises(NotFound):
            await s.commands.action_cancel(WHO, "nothing")

    play(story)


# --- spurious calls, clocks, outages ---------------------------------------------------------------


def test_a_parent_that_is_woken_while_parts_are_open_goes_on_waiting() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 1, spec={"create_s": 30.0})
        ident = await ask(s, "scale_out", {"count": 2})
        await soon(s, under_way(s, "CREATE", 2))
        for spoilt in ({"status": "READY"}, {"wake_us": 1}, {"wake_us": 2**60}, {"wake_us": None}):
            await set_action(s, ident, **spoilt)
            await s.clock.sleep(5)
            assert (await action_of(s, ident)).end_us is None
        await ended(s, ident)
        await as_wanted(s)

    play(story)


@pytest.mark.parametrize("step", [-100_000, -50, 50])
def test_a_clock_that_is_set_while_parts_are_open(step: float) -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 1, timeout=300, spec={"create_s": 30.0})
        ident = await ask(s, "scale_out", {})
        await soon(s, under_way(s, "CREATE"))
        s.clock.step(step)
        await ended(s, ident, within_s=90)
        await as_wanted(s)
        s.plan.rules.append(Rule(fault=Fault.HANG, call="*:CREATE"))
        ident = await ask(s, "scale_out", {})
        await s.clock.sleep(5)
        s.clock.step(step)
        await ended(s, ident, within_s=320, status="FAILED")

    play(story)


@pytest.mark.parametrize("moment", [0.0, 1.0, 9.0])
def test_the_database_is_away_in_the_middle(moment: float) -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 2, spec={"create_s": 8.0})
        ident = await ask(s, "scale_out", {"count": 2})
        await s.clock.sleep(moment)
        s.weather.away = True
        await s.clock.sleep(60)
        s.weather.away = False
        await ended(s, ident)
        await settled(s)
        await as_wanted(s)

    play(story)


def test_answers_of_the_database_are_lost() -> None:
    async def story(s: Stage) -> None:
        await a_cluster(s, 2)
        s.weather.loses_answers = 0.3
        await s.clock.sleep(1)
        idents: list[Any] = []
        for verb, data in (("scale_out", {"count": 3}), ("check", {}), ("scale_in", {"count": 2})):
            kept, s.weather.loses_answers = s.weather.loses_answers, 0.0
            idents.append(await ask(s, verb, data))
            s.weather.loses_answers = kept
            await ended(s, idents[-1])
        s.weather.loses_answers = 0.0
        await settled(s)
        await as_wanted(s)

    play(story)


def test_a_takeover_by_another_engine() -> None:
    async def story(s: Stage) -> None:
        s.start()
        await a_cluster(s, 3, spec={"create_s": 8.0})
        ident = await ask(s, "scale_out", {"count": 3})
        await soon(s, under_way(s, "CREATE", 3))
        await s.living[0].kill()
        await ended(s, ident)
        await as_wanted(s)

    play(story, alone=False)
