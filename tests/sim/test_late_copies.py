"""A copy that came about after its request was given up, and is well: it is the node's own from then on.

While the row names the one that is gone, nobody hears what happens to the other, and a person who
looks for it in the cloud looks for the wrong one.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from tests.sim.stage import Life, Stage, policy, stage

from yaffle.model.ids import NodeId
from yaffle.model.operations import ProgressState
from yaffle.store import actions, catalog
from yaffle.store.tables import events
from yaffle.testing import Fault, Rule, run_virtual

RECREATE = [{"name": "RECREATE", "timeout": 30}]
ONCE = {"attempts": 1, "backoff": 3600, "max_backoff": 3600, "stable_after": 60}


async def _row(s: Stage, ident: NodeId) -> tuple[str, str]:
    (found,) = [(n.physical_id, n.health) for n in await s.nodes() if n.id == ident]
    return found


async def _adoptions(s: Stage) -> Sequence[str]:
    asked = select(events.c.reason).where(events.c.action == "ADOPT_COPY")
    return await s.store.read(lambda conn: conn.execute(asked).scalars().all())


def _given_up(s: Stage, victim: NodeId, *, arrives_s: float) -> None:
    """Let the node die, and the request for its next copy get no answer, and come true too late."""
    s.plan.rules.append(Rule(fault=Fault.LATE, call="submit:CREATE", delay_s=arrives_s, times=1))
    s.plan.rules.append(Rule(fault=Fault.HANG, call="submit:CREATE", times=60))
    s.world.kill(victim)


def test_a_late_copy_that_is_well_is_the_nodes_own() -> None:
    async def story() -> None:
        async with stage(11) as s:
            s.start()
            await s.build(3, policy(actions=RECREATE, retry=ONCE))
            victim = s.node_ids()[0]
            before, _ = await _row(s, victim)
            _given_up(s, victim, arrives_s=90)
            await s.until(lambda: _is(s, victim, "unhealthy"), 60, "seen to be dead")
            await s.until(lambda: _is(s, victim, "healthy"), 200, "its late copy was seen")
            (late,) = s.world.alive(victim)
            assert late.physical_id != before
            await s.until(lambda: _is_of(s, victim, late.physical_id), 20, "taken for its own")
            assert await _adoptions(s) == [
                f"{late.physical_id} bears its mark and is well; {before} is gone"
            ]
            await s.clock.sleep(100)
            assert len(await _adoptions(s)) == 1, "told again and again"

    run_virtual(story, seed=11, cpu_s=100)


def test_who_is_being_recovered_is_left_to_the_recovery() -> None:
    """Its copy is well while the action still waits for an answer, which comes to nothing."""

    async def story() -> None:
        async with stage(12) as s:
            s.start()
            await s.build(3, policy(actions=RECREATE, retry=ONCE))
            victim = s.node_ids()[0]
            before, _ = await _row(s, victim)
            s.plan.rules.append(Rule(fault=Fault.HANG, call="poll:CREATE", times=60))
            _given_up(s, victim, arrives_s=1)
            await s.until(lambda: _is(s, victim, "unhealthy"), 60, "seen to be dead")
            await s.until(lambda: _is(s, victim, "healthy"), 60, "its late copy was seen")
            (late,) = s.world.alive(victim)
            while await s.store.read(actions.unfinished):
                assert await _row(s, victim) == (before, "healthy")
                await s.clock.sleep(0.5)
            ended_s = s.clock.monotonic_s()
            await s.until(lambda: _is_of(s, victim, late.physical_id), 15, "its id is known")
            assert ended_s - late.started_s > 5, "the action was over at once"
            assert len(await _adoptions(s)) == 1

    run_virtual(story, seed=12, cpu_s=100)


def test_a_row_that_names_another_copy_is_mended_though_nothing_ever_failed() -> None:
    """As engines left it that did not know better."""

    async def story() -> None:
        async with stage(13) as s:
            s.start()
            await s.build(3, policy())
            victim = s.node_ids()[0]
            (present,) = s.world.alive(victim)
            gone = {"node_ip": "198.51.100.9", "host": "elsewhere"}
            stale = {victim: {"physical_id": "one-that-is-gone", "attributes": gone}}
            await s.store.write(lambda conn: catalog.set_nodes(conn, stale, s.clock.now_us()))
            await s.until(lambda: _is_of(s, victim, present.physical_id), 60, "mended")
            (row,) = [n for n in await s.nodes() if n.id == victim]
            assert row.attributes["node_ip"] == "192.0.2.1", "asked where another may live by now"
            assert len(await _adoptions(s)) == 1

    run_virtual(story, seed=13, cpu_s=100)


def test_a_deletion_asked_for_before_is_none_of_the_copy_that_came_late() -> None:
    """A successor finds the deletion done, and another copy there than the one that it named."""

    async def story() -> None:
        async with stage(14) as s:
            s.start()
            retry = {"attempts": 3, "backoff": 5, "max_backoff": 5, "stable_after": 60}
            await s.build(3, policy(actions=RECREATE, retry=retry))
            victim = s.node_ids()[0]
            # Each request arrives, and its answer is lost.
            s.plan.rules.append(Rule(fault=Fault.LATE, call="submit:DELETE", delay_s=0.1, times=2))
            first = s.living[0]
            deletions = _Deletions(first)
            _given_up(s, victim, arrives_s=90)
            await s.until(deletions.twice, 100, "the second try has deleted what it knew of")
            await first.kill()
            assert not s.world.alive(victim)
            await s.until(
                lambda: _has_copy(s, victim), 60, "the copy of the first attempt is there"
            )
            s.plan.rules.clear()
            s.start()
            # That there are never two of them is asked at each step of this.
            await s.until(s.all_well, 200, "healed")
            assert len(s.world.alive(victim)) == 1

    run_virtual(story, seed=14, cpu_s=100)


def test_a_proof_is_of_the_copy_that_was_fenced_and_of_no_other() -> None:
    """The late copy comes between the fence and the deletion, which then comes to nothing."""

    async def story() -> None:
        async with stage(15) as s:
            s.start()
            retry = {"attempts": 5, "backoff": 5, "max_backoff": 5, "stable_after": 60}
            await s.build(3, policy(actions=RECREATE, retry=retry))
            victim = s.node_ids()[0]
            _given_up(s, victim, arrives_s=3600)
            fences = 0

            def passed(point: str) -> None:
                nonlocal fences
                fences += point == "after fence"
                if fences == 2 and point == "after fence":
                    _arrive(s)
                    s.plan.rules[:] = [Rule(fault=Fault.HANG, call="submit:DELETE", times=60)]

            s.living[0].gate.on_point = passed
            await s.until(
                lambda: _has_copy(s, victim), 100, "the copy of the first attempt is there"
            )
            (late,) = s.world.alive(victim)
            s.world.hang(victim)  # else the node is well, and there is nothing to be healed
            # That there are never two of them is asked at each step of this.
            await s.until(lambda: _is_of(s, victim, late.physical_id), 100, "it is known")
            await s.clock.sleep(60)
            s.plan.rules.clear()
            await s.until(s.all_well, 300, "healed")

    run_virtual(story, seed=15, cpu_s=100)


def _arrive(s: Stage) -> None:
    """Let the request that is under way come true now."""
    for job in s.world.jobs:
        if job.kind == "CREATE" and job.state is ProgressState.RUNNING:
            job.arrives_s = job.due_s = s.clock.monotonic_s()


class _Deletions:
    """Counts what an engine has asked to be deleted, and kills it at the second, unanswered."""

    def __init__(self, life: Life) -> None:
        self._seen, self._gate = 0, life.gate
        self._gate.on_point = self._passed

    def _passed(self, point: str) -> None:
        self._seen += point == "after submit DELETE"
        self._gate.dead |= self._seen == 2

    async def twice(self) -> bool:
        return self._seen >= 2


async def _has_copy(s: Stage, ident: NodeId) -> bool:
    return bool(s.world.alive(ident))


async def _is(s: Stage, ident: NodeId, health: str) -> bool:
    return (await _row(s, ident))[1] == health


async def _is_of(s: Stage, ident: NodeId, physical_id: str) -> bool:
    return (await _row(s, ident))[0] == physical_id
