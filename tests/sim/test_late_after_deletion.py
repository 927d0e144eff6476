"""A copy that comes about after its node was deleted is looked for by the node's mark, and ended.

The request for it got no answer in all the time that its step had, and arrives when nobody knows of
the node any more. Until the sweeper finds it nobody sees it, and it writes and costs.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import select
from tests.sim.jobs import a_cluster
from tests.sim.stage import Stage, policy, stage
from tests.sim.test_deletions import delete

from yaffle.api.diagnostics.stored import checks_of
from yaffle.engine.action_inputs.target_mapping import target_of
from yaffle.model.ids import NodeId
from yaffle.model.incident import PauseKind, PauseScope
from yaffle.store import catalog, late_resources
from yaffle.store.installation_facts import gather
from yaffle.store.tables import debris
from yaffle.testing import Fault, Rule, run_virtual

ONCE = {"attempts": 1, "backoff": 3600, "max_backoff": 3600, "stable_after": 60}
LATE_S = 600.0


def first_is_late(s: Stage, arrives_s: float = LATE_S) -> None:
    """Let the next request for a copy get no answer, and arrive then."""
    s.plan.rules.append(Rule(fault=Fault.LATE, call="submit:CREATE", delay_s=arrives_s, times=1))


async def given_up(s: Stage, unanswered: str = "submit:CREATE") -> NodeId:
    """Ask for a node, and return it when its creation has been given up unanswered."""
    first_is_late(s)
    s.plan.rules.append(Rule(fault=Fault.HANG, call=unanswered))
    await a_cluster(s, 1, wait=False)

    async def over() -> bool:
        return [n.status for n in await s.nodes()] == ["ERROR"]

    await s.until(over, 400, "its creation was given up")
    s.plan.rules.clear()
    (node,) = await s.nodes()
    return NodeId(node.id)


async def deleted(s: Stage, ident: NodeId, what: str = "node", within_s: float = 60) -> None:
    """Delete it, and wait until nobody knows of it."""
    await delete(s, what, ident)

    async def over() -> bool:
        return ident not in [n.id for n in await s.nodes()]

    await s.until(over, within_s, "deleted")
    assert not s.world.alive(ident)


async def comes(s: Stage, ident: NodeId) -> float:
    """Wait for the late copy of a node that is gone; return when it began."""

    async def there() -> bool:
        return bool(s.world.alive(ident))

    await s.until(there, LATE_S, "the late copy is there")
    return s.world.alive(ident)[0].started_s


async def goes(s: Stage, ident: NodeId, within_s: float = LATE_S) -> None:
    """Wait for its end."""

    async def over() -> bool:
        return not s.world.alive(ident)

    await s.until(over, within_s, "the late copy is ended")


async def notes(s: Stage) -> list[tuple[int, bool]]:
    """Return of each note how many looks have ended, and whether it is settled."""
    query = select(debris.c.attempts, debris.c.done_us).where(
        debris.c.physical_id == late_resources.WHATEVER
    )
    found = await s.store.read(lambda c: c.execute(query).all())
    return [(row.attempts, row.done_us is not None) for row in found]


async def settled(s: Stage) -> bool:
    return all(over for _, over in await notes(s))


async def nobody_lives(s: Stage, for_s: float) -> None:
    """Let time pass without an engine, which costs nothing."""
    await s.living[0].kill()
    await s.clock.sleep(for_s)
    s.start()


def looks(s: Stage, since: int) -> list[float]:
    """Return when deletions were asked about."""
    return [at for at, call, _ in s.plan.calls[since:] if call == "poll:DELETE"]


def run(story: Any, seed: int) -> None:
    async def main() -> None:
        async with stage(seed) as s:
            s.start()
            await story(s)

    run_virtual(main, seed=seed, cpu_s=100)


@pytest.mark.parametrize("what", ["node", "cluster"])
def test_a_copy_that_comes_after_its_node_was_deleted_is_ended(what: str) -> None:
    async def story(s: Stage) -> None:
        ident = await given_up(s)
        await deleted(s, ident, what)
        gone_s = s.clock.monotonic_s()
        came_s = await comes(s, ident)
        await goes(s, ident)
        assert s.clock.monotonic_s() - came_s < came_s - gone_s + 40, "longer than it was late"

    run(story, 21)


@pytest.mark.parametrize("what", ["node", "cluster"])
def test_also_where_its_deletion_was_asked_for_while_it_was_made(what: str) -> None:
    async def story(s: Stage) -> None:
        first_is_late(s)
        s.plan.rules.append(Rule(fault=Fault.HANG, call="submit:CREATE"))
        await a_cluster(s, 1, wait=False)

        async def asked() -> bool:
            return any(call == "submit:CREATE" for _, call, _ in s.plan.calls)

        await s.until(asked, 60, "its copy was asked for")
        (node,) = await s.nodes()
        await deleted(s, node.id, what, within_s=400)
        await comes(s, node.id)
        await goes(s, node.id)

    run(story, 34)


def test_also_where_nobody_could_be_asked_what_became_of_the_request() -> None:
    async def story(s: Stage) -> None:
        ident = await given_up(s, "poll:CREATE")
        await deleted(s, ident)
        await comes(s, ident)
        await goes(s, ident)

    run(story, 32)


@pytest.mark.parametrize("when", ["before it comes", "when it is there"])
def test_another_engine_goes_on_looking(when: str) -> None:
    async def story(s: Stage) -> None:
        ident = await given_up(s)
        await deleted(s, ident)
        if when == "when it is there":
            await comes(s, ident)
        await s.living[0].kill()
        await s.clock.sleep(60)
        s.start()
        if when == "before it comes":
            await comes(s, ident)
        await goes(s, ident)

    run(story, 22)


def test_an_engine_that_lives_on_takes_the_look_out_over() -> None:
    async def story() -> None:
        async with stage(23, alone=False) as s:
            first, _ = s.start(), s.start()
            ident = await given_up(s)
            await deleted(s, ident)
            await first.kill()
            await comes(s, ident)
            await goes(s, ident)

    run_virtual(story, seed=23, cpu_s=100)


@pytest.mark.parametrize("fault", [Fault.HANG, Fault.ERROR, Fault.RAISE, Fault.LOSE])
def test_a_look_that_gets_no_answer_settles_nothing(fault: Fault) -> None:
    """The backend is away for longer than a copy is looked for."""

    async def story(s: Stage) -> None:
        ident = await given_up(s)
        await deleted(s, ident)
        s.plan.rules.append(Rule(fault=fault, call="*:DELETE"))
        await nobody_lives(s, late_resources.LATE_S)
        before = len(s.plan.calls)
        await s.clock.sleep(60)
        assert looks(s, before), "it is asked all the same"
        assert s.world.alive(ident)
        assert await notes(s) == [(0, False)]
        s.plan.rules.clear()
        await nobody_lives(s, late_resources.PAUSE_MAX_S)
        await goes(s, ident, 60)
        await s.until(lambda: settled(s), 60, "it is over")

    run(story, 24)


def test_a_look_that_gets_no_answer_is_repeated_for_a_moment() -> None:
    """A slow cloud's list comes too late for the first call, and in time for the next."""

    async def story(s: Stage) -> None:
        ident = await given_up(s)
        await deleted(s, ident)
        await comes(s, ident)
        before = len(s.plan.calls)
        s.plan.rules.append(Rule(fault=Fault.HANG, call="poll:DELETE", times=3))
        await goes(s, ident)
        times = looks(s, before)
        assert len(times) > 3
        assert times[3] - times[0] < 20

    run(story, 33)


def test_where_nothing_comes_it_is_looked_for_ever_more_rarely_and_for_a_day() -> None:
    async def story(s: Stage) -> None:
        ident = await given_up(s)
        s.world.jobs.clear()  # the request is lost
        await deleted(s, ident)
        before = len(s.plan.calls)
        (remains,) = [c for c in await checks(s) if c.name == "orphans"]
        assert (remains.status, "late ones of 1 deleted" in remains.detail) == ("ok", True)
        await s.clock.sleep(1800)
        times = looks(s, before)
        gaps = [b - a for a, b in pairwise(times)]
        assert len(times) == 5
        assert all(b > 1.5 * a for a, b in pairwise(gaps)), f"not more rarely: {gaps}"
        assert not await settled(s)
        await nobody_lives(s, late_resources.LATE_S)
        await s.until(lambda: settled(s), 60, "it is over")
        before = len(s.plan.calls)
        await s.clock.sleep(600)
        assert not looks(s, before)
        (remains,) = [c for c in await checks(s) if c.name == "orphans"]
        assert "late" not in remains.detail

    run(story, 25)


async def checks(s: Stage) -> Any:
    facts = await s.store.read(lambda conn: gather(conn, s.clock.now_us()))
    return list(checks_of(facts))


def test_a_node_that_is_made_anew_under_the_same_name_is_left_alone() -> None:
    async def story(s: Stage) -> None:
        ident = await given_up(s)
        await deleted(s, ident, "cluster")
        await s.build(1, policy())
        (anew,) = await s.nodes()
        assert (anew.name, anew.id != ident) == ("web-1", True)
        copies = s.world.alive(anew.id)
        await comes(s, ident)
        await goes(s, ident)
        assert s.world.alive(anew.id) == copies

    run(story, 26)


def test_a_node_that_has_a_row_is_spared_whatever_is_noted() -> None:
    async def story(s: Stage) -> None:
        await s.build(1, policy())
        (node,) = await s.nodes()
        copies = s.world.alive(node.id)

        def work(conn: Any) -> None:
            target = target_of(node, catalog.profile(conn, node.profile_id), "")
            late_resources.note(conn, s.new_id(), target, s.clock.now_us())

        await s.store.write(work)
        await s.clock.sleep(300)
        assert s.world.alive(node.id) == copies
        assert await notes(s) == [(0, False)]

    run(story, 27)


def test_nothing_is_ended_while_an_operator_says_stop() -> None:
    async def story(s: Stage) -> None:
        ident = await given_up(s)
        await deleted(s, ident)
        pause = await s.commands.pause(
            PauseKind.STOP, PauseScope.ALL, "", owner="op", reason="look first", for_s=None
        )
        await comes(s, ident)
        before = len(s.plan.calls)
        await nobody_lives(s, LATE_S)
        await s.clock.sleep(60)
        assert len(looks(s, before)) == 1, "it is asked for, and that is all"
        assert s.world.alive(ident)
        await s.commands.lift(pause, by="op")
        await nobody_lives(s, 2 * LATE_S)
        await goes(s, ident, 60)

    run(story, 28)


def test_a_request_that_was_sent_again_may_arrive_as_well() -> None:
    """The second one has made the node's copy, which was deleted with it; then the first arrives."""

    async def story(s: Stage) -> None:
        first_is_late(s)
        await a_cluster(s, 1)
        (node,) = await s.nodes()
        assert (node.status, len(s.world.alive(node.id))) == ("ACTIVE", 1)
        await deleted(s, node.id)
        await comes(s, node.id)
        await goes(s, node.id)

    run(story, 29)


def test_a_request_of_a_recovery_that_was_given_up_may_arrive_as_well() -> None:
    """Another try has made the copy that was deleted with the node."""

    async def story(s: Stage) -> None:
        retry = {"attempts": 3, "backoff": 5, "max_backoff": 5, "stable_after": 60}
        await s.build(1, policy(actions=[{"name": "RECREATE", "timeout": 30}], retry=retry))
        (node,) = await s.nodes()
        first_is_late(s)
        s.plan.rules.append(Rule(fault=Fault.HANG, call="submit:CREATE", times=10))
        s.world.kill(node.id)
        await s.until(lambda: _unwell(s), 60, "seen to be dead")
        await s.until(s.all_well, 300, "healed")
        assert [c.physical_id for c in s.world.copies[node.id]] == [
            f"{node.id[:8]}/1",
            f"{node.id[:8]}/2",
        ]
        await deleted(s, node.id)
        await comes(s, node.id)
        await goes(s, node.id)

    run(story, 30)


async def _unwell(s: Stage) -> bool:
    return not await s.all_well()


@pytest.mark.parametrize("fault", [Fault.FAIL, Fault.LOSE, None])
def test_nothing_is_looked_for_where_every_request_was_answered(fault: Fault | None) -> None:
    """LOSE: the answer was lost, and the one request that there was is found by its operation id."""

    async def story(s: Stage) -> None:
        if fault is not None:
            s.plan.rules.append(Rule(fault=fault, call="submit:CREATE"))
        await a_cluster(s, 1, wait=False)

        async def over() -> bool:
            wanted = "ERROR" if fault is Fault.FAIL else "ACTIVE"
            return [n.status for n in await s.nodes()] == [wanted]

        await s.until(over, 300, "its creation has ended")
        (node,) = await s.nodes()
        await deleted(s, node.id)
        assert not await notes(s)

    run(story, 31)
