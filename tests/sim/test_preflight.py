"""What could not be made again is not given up: it is asked before the first act of no return."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import select
from tests.sim import test_rules
from tests.sim.stage import Stage, policy, stage
from tests.sim.test_halting import acted
from tests.sim.test_node_actions import ended, node, profile_name, profiles
from tests.sim.test_refusals import REBOOT, RECREATE, acts, dies_at
from tests.sim.test_rules import results

from yaffle.config import BudgetSettings, BudgetsSettings
from yaffle.engine.explain import Explainer
from yaffle.engine.incidents import lifecycle
from yaffle.model.authz import LOCAL
from yaffle.model.ids import NodeId
from yaffle.model.incident import PauseKind, PauseScope
from yaffle.store import actions, incidents, journal
from yaffle.store.tables import actions as actions_table
from yaffle.store.tables import outbox, steps
from yaffle.testing import Fault, Rule, run_virtual

REBUILD = [{"name": "REBUILD", "timeout": 60}]
RETRY = {"attempts": 2, "backoff": 5, "max_backoff": 10, "stable_after": 60}
GONE = Rule(fault=Fault.FAIL, call="foresee")
FEW = BudgetsSettings(
    **dict.fromkeys(
        ("total", "project", "domain", "host", "cluster"),
        BudgetSettings(max_in_flight=1, burst=2, per_hour=0.001),
    )
)
"""Budgets that nothing fills but what is given back."""
UNANSWERED = [Fault.STUCK, Fault.LOSE, Fault.RAISE]


def play(story: Callable[[Stage], Awaitable[None]], size: int = 2, **changed: Any) -> None:
    changed.setdefault("retry", {**RETRY, "attempts": 20})
    test_rules.play(story, size, foreseeing=True, **changed)


def said(s: Stage, victim: NodeId) -> Callable[[], Awaitable[bool]]:
    """Return whether the node says what is missing, and that nothing was given up for it."""

    async def look() -> bool:
        why = (await node(s, victim)).status_reason
        return "nothing was given up" in why and "image scripted is gone" in why

    return look


def questions(s: Stage) -> int:
    """Return how often somebody has asked what could be made."""
    return sum(call == "foresee" for _, call, _ in s.plan.calls)


async def told(s: Stage) -> list[str]:
    """Return what the fences say that were not begun."""
    query = select(steps.c.detail).where(steps.c.stage == "fence", steps.c.phase == journal.ENDED)
    return [row.detail for row in await s.store.read(lambda c: c.execute(query).all())]


async def recoveries(s: Stage) -> int:
    query = select(actions_table.c.id).where(actions_table.c.action == "NODE_RECOVER")
    return len(await s.store.read(lambda c: c.execute(query).all()))


async def begun(s: Stage) -> list[float]:
    """Return when each recovery began, in seconds."""
    query = select(actions_table.c.start_us).where(actions_table.c.action == "NODE_RECOVER")
    rows = await s.store.read(lambda c: c.execute(query.order_by("start_us")).all())
    return [row.start_us / 1e6 for row in rows if row.start_us]


async def failures_told(s: Stage) -> list[str]:
    query = select(outbox.c.body).where(outbox.c.topic == lifecycle.ATTEMPT_FAILED)
    return [row.body["reason"] for row in await s.store.read(lambda c: c.execute(query).all())]


@pytest.mark.parametrize("fencing", [["COMPUTE"], []], ids=["fence", "delete"])
def test_what_cannot_be_made_again_is_left_alive_and_healed_once_it_can(fencing: list[str]) -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        before = s.world.present(victim)
        s.plan.rules.append(GONE)
        since = len(s.plan.calls)
        s.world.hang(victim)
        await s.clock.sleep(12)
        assert not acts(s, since)
        assert s.world.present(victim) is before
        await s.until(said(s, victim), 20, "it says why")
        incident = await s.store.read(lambda conn: incidents.open_of(conn, victim))
        assert incident is not None
        s.plan.rules.clear()
        await s.until(s.all_well, 60, "healed, now that it can be made")

    play(story, actions=RECREATE, fencing=fencing)


@pytest.mark.parametrize("fault", UNANSWERED, ids=lambda f: f.value)
def test_unknown_is_no_yes(fault: Fault) -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        s.plan.rules.append(Rule(fault=fault, call="foresee"))
        since = len(s.plan.calls)
        s.world.hang(victim)
        await s.clock.sleep(50)
        assert not acts(s, since)
        assert s.world.alive(victim)
        assert await told(s)
        assert all("not known whether CREATE could follow" in why for why in await told(s))
        s.plan.rules.clear()
        await s.until(s.all_well, 60, "healed, now that an answer comes")

    play(story, actions=RECREATE)


def test_a_question_without_an_answer_is_repeated_within_the_step() -> None:
    async def story(s: Stage) -> None:
        s.plan.rules.append(Rule(fault=Fault.ERROR, call="foresee", times=5))
        s.world.hang(s.node_ids()[0])
        await s.clock.sleep(20)
        await s.until(s.all_well, 60, "healed")
        assert await recoveries(s) == 1
        assert questions(s) == 6

    play(story, actions=RECREATE)


def test_a_stop_ends_the_asking() -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        s.plan.rules.append(Rule(fault=Fault.ERROR, call="foresee"))
        asked = acted(s, "foresee")
        s.world.hang(victim)
        await s.until(asked, 60, "it was asked")
        await s.commands.pause(
            PauseKind.STOP, PauseScope.ALL, "", owner="op", reason="x", for_s=None
        )
        s.plan.rules.clear()
        await s.clock.sleep(20)
        assert (await results(s))[-1] == ("fence", "halted")
        assert s.world.alive(victim)

    play(story, actions=RECREATE)


def test_what_is_missing_spends_no_try_and_is_asked_for_ever_more_rarely_until_it_is_there() -> (
    None
):
    async def story(s: Stage) -> None:
        victim, other = s.node_ids()[:2]
        name = (await node(s, victim)).name
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="foresee", node=name))
        s.world.hang(victim)
        await s.clock.sleep(600)
        row = await node(s, victim)
        assert (row.attempts, row.exhausted_us) == (0, None)
        at = await begun(s)
        gaps = [after - before for before, after in pairwise(at)]
        assert 600 / (60 + 20) <= len(at) <= 600 / 60 + 5, "doubled up to the longest rest"
        assert gaps[:3] == sorted(gaps[:3])
        answer = await Explainer(s.ctx).why(LOCAL, victim)
        assert answer.held is not None
        assert "No attempt was spent" in answer.held.sentence
        assert "image scripted is gone" in answer.held.sentence
        assert "The last attempt failed" not in "".join(answer.lines())
        (told_once,) = await failures_told(s)
        assert "image scripted is gone" in told_once
        s.world.hang(other)
        await s.clock.sleep(40)
        assert (await node(s, other)).health == "healthy", "nobody else waits for it"
        s.plan.rules.clear()
        await s.until(s.all_well, 90, "healed, now that it can be made")

    slow = {"attempts": 2, "backoff": 5, "max_backoff": 60, "stable_after": 60}
    play(story, size=3, actions=RECREATE, retry=slow, budgets=FEW)


def test_who_gets_well_by_itself_was_not_recovered() -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        s.plan.rules.append(GONE)
        asked = acted(s, "foresee")
        s.world.hang(victim)
        while not await asked():
            await s.clock.sleep(0.01)
        s.world.revive(victim)
        await s.until(s.all_well, 60, "well by itself")
        row = await node(s, victim)
        assert row.attempts == 0, "of all that might have helped nothing was begun"

    play(story, actions=[*RECREATE, *REBOOT])


def test_the_ladder_goes_on_to_what_else_may_help() -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        s.plan.rules.append(GONE)
        since = len(s.plan.calls)
        s.world.hang(victim)
        await s.clock.sleep(15)
        await s.until(s.all_well, 60, "rebooted")
        assert set(acts(s, since)) == {"submit:REBOOT"}
        assert ("fence", "unproved") in await results(s)

    play(story, actions=[*RECREATE, *REBOOT])


def test_a_try_that_did_something_counts() -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        s.plan.rules += [GONE, Rule(fault=Fault.FAIL, call="submit:REBOOT")]
        s.world.hang(victim)
        await s.clock.sleep(60)
        row = await node(s, victim)
        assert (row.attempts, row.exhausted_us is None) == (RETRY["attempts"], False)
        assert s.world.alive(victim)

    play(story, actions=[*REBOOT, *RECREATE], retry=RETRY)


def test_a_disk_is_kept_that_could_not_be_made_anew() -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        s.plan.rules.append(GONE)
        since = len(s.plan.calls)
        s.world.hang(victim)
        await s.clock.sleep(35)
        assert set(await results(s)) == {("look", "sick"), ("act", "failed")}
        assert "submit:REBUILD" not in {call for _, call, _ in s.plan.calls[since:]}
        s.plan.rules.clear()
        await s.until(s.all_well, 60, "rebuilt")

    play(story, actions=REBUILD)


def test_one_question_for_each_copy_that_is_given_up() -> None:
    async def story(s: Stage) -> None:
        s.world.hang(s.node_ids()[0])
        await s.clock.sleep(15)
        await s.until(s.all_well, 60, "healed")
        # A fence was proved: to ask again before the deletion would only leave the remains lying.
        assert questions(s) == 1

    play(story, actions=RECREATE)


def test_one_snapshot_is_taken_however_often_it_is_tried() -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        s.plan.rules.append(GONE)
        s.world.hang(victim)
        await s.until(said(s, victim), 60, "it says why")
        taken = [call for _, call, _ in s.plan.calls if call == "submit:SNAPSHOT"]
        assert len(taken) == 1
        assert s.world.alive(victim)
        s.plan.rules.clear()
        await s.until(s.all_well, 60, "healed")
        taken = [call for _, call, _ in s.plan.calls if call == "submit:SNAPSHOT"]
        assert len(taken) == 1, "the first attempt has taken one, and nothing was made from it"
        query = select(steps.c.data).where(steps.c.stage == "create")
        made = [row.data for row in await s.store.read(lambda c: c.execute(query).all())]
        assert sum(bool(data.get("booted_from")) for data in made) == 1, "and it is what is booted"

    play(story, actions=RECREATE, snapshot={"take": True, "restore": True, "timeout": 20})


def test_a_successor_asks_again_before_it_fences() -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        s.world.hang(victim)
        await dies_at(s, "before fence")
        s.plan.rules.append(GONE)
        since = len(s.plan.calls)
        s.start()
        await s.clock.sleep(45)
        assert not acts(s, since)
        assert s.world.alive(victim)
        assert questions(s) > 1
        s.plan.rules.clear()
        await s.until(s.all_well, 120, "healed")

    play(story, actions=RECREATE)


def test_a_deletion_that_was_begun_is_followed_to_its_end() -> None:
    """Nobody asks any more whether it should be: what was submitted may have been done."""

    async def story(s: Stage) -> None:
        s.world.hang(s.node_ids()[0])
        await dies_at(s, "after submit DELETE")
        s.plan.rules.append(GONE)
        s.start()
        await s.clock.sleep(60)
        assert ("delete", "proved") in await results(s)
        assert ("create", "done") in await results(s)

    play(story, actions=RECREATE, fencing=[])


def test_an_update_asks_for_what_is_to_be() -> None:
    """A node is not deleted for a profile of which nothing can be made; it is as well as before."""

    async def main() -> None:
        async with stage(5, foreseeing=True) as s:
            s.start()
            await s.build(1, policy())
            await profiles(s)
            (ident,) = s.node_ids()
            before = s.world.present(ident)
            seen: list[str] = []
            asking = s.profile.foresee  # type: ignore[attr-defined]

            async def foresee(op: Any, *, deadline_s: float) -> Any:
                seen.append(str(op.target.spec["image"]))
                return await asking(op, deadline_s=deadline_s)

            s.profile.foresee = foresee  # type: ignore[attr-defined]
            s.plan.rules.append(GONE)
            action = await s.commands.node_update(LOCAL, ident, profile="new")
            row = await ended(s, action)
            assert row.status == actions.FAILED
            assert "image scripted is gone" in row.status_reason
            assert s.world.present(ident) is before
            assert (await node(s, ident)).status == "ACTIVE"
            assert await profile_name(s, ident) == "profile-web"
            s.plan.rules.clear()
            action = await s.commands.node_update(LOCAL, ident, profile="new")
            assert (await ended(s, action)).status == actions.SUCCEEDED
            assert set(seen) == {"v2"}

    run_virtual(main, seed=5, cpu_s=60)
