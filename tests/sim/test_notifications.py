"""Every failure is told: once, in order, and to each receiver whatever becomes of the others."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import pytest
from sqlalchemy import select
from tests.sim.stage import Stage
from tests.sim.test_receivers import lonely
from tests.sim.test_rules import play

from yaffle.engine.queries.incidents import full
from yaffle.model.health import Outcome
from yaffle.model.incident import PauseKind, PauseScope
from yaffle.model.operations import Progress, ProgressState
from yaffle.store import events, incidents, prune
from yaffle.store.tables import actions
from yaffle.store.tables import events as events_table
from yaffle.store.tables import pauses as pauses_table
from yaffle.testing import Fault, Rule

REBOOT = [{"name": "REBOOT", "timeout": 30}]
ONE_TRY = {"attempts": 1, "backoff": 5, "max_backoff": 20, "stable_after": 60}


def told(s: Stage, since: int = 0) -> list[str]:
    """Return the topics that the receiver accepted since that many messages."""
    return [m.topic.removeprefix("incident.") for m in s.notifier.received[since:]]


async def states(s: Stage) -> list[str]:
    known = await s.store.read(
        lambda c: incidents.listed(c, open_only=False, node_id=None, limit=99)
    )
    return [i.state for i in reversed(known)]


async def stop(s: Stage) -> None:
    await s.commands.pause(PauseKind.STOP, PauseScope.ALL, "", owner="op", reason="x", for_s=None)


# --- exhausted -----------------------------------------------------------------------------------


async def exhaust(s: Stage) -> Any:
    """Let a node use up its recoveries; return its id."""
    victim = s.node_ids()[0]
    s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:REBOOT"))
    s.world.hang(victim)
    await s.clock.sleep(200)
    assert (await states(s), told(s)[-1]) == (["exhausted"], "exhausted")
    return victim


@pytest.mark.parametrize("asked", [False, True], ids=["by-hand", "on-request"])
def test_an_exhausted_node_that_got_well_and_fails_again_is_news_once(asked: bool) -> None:
    async def story(s: Stage) -> None:
        victim = await exhaust(s)
        if asked:
            s.plan.rules.clear()
            await s.commands.recover(victim, by="op", operation="REBOOT")
        else:
            s.world.revive(victim)
        await s.clock.sleep(200)
        assert await s.all_well(), await s.picture()
        since = len(s.notifier.received)
        s.plan.rules[:] = [Rule(fault=Fault.FAIL, call="submit:REBOOT")]
        s.world.hang(victim)
        await s.clock.sleep(600)
        news = told(s, since)
        assert (news.count("opened"), news.count("exhausted")) == (1, 1), news
        assert (await states(s))[-1] == "exhausted"

    play(story, actions=REBOOT, retry=ONE_TRY)


def test_each_try_that_failed_is_told() -> None:
    async def story(s: Stage) -> None:
        await exhaust(s)
        tried = ["recovering", "attempt-failed"]
        heard = [topic for topic in told(s) if topic != "held"]
        assert heard == ["opened", *tried, *tried, "recovering", "exhausted"]
        said = [
            m.body["reason"] for m in s.notifier.received if m.topic == "incident.attempt-failed"
        ]
        assert [text.partition(":")[0] for text in said] == [
            "attempt 1 failed, others are left",
            "attempt 2 failed, others are left",
        ]

    play(story, actions=REBOOT, retry={**ONE_TRY, "attempts": 3})


def test_an_incident_tells_the_steps_of_every_try() -> None:
    async def story(s: Stage) -> None:
        await exhaust(s)
        (incident,) = await s.store.read(
            lambda c: [
                full(c, i) for i in incidents.listed(c, open_only=False, node_id=None, limit=9)
            ]
        )
        tries = [[*several] for _, several in groupby(incident["steps"], itemgetter("action_id"))]
        assert [[s["stage"] for s in several] for several in tries] == [["look", "act"]] * 3
        assert {s["result"] for several in tries for s in several} == {"sick", "failed"}
        assert tries[-1][0]["action_id"] == incident["action_id"]
        begun = [step["at_ms"] for step in incident["steps"]]
        assert begun == sorted(begun)

    play(story, actions=REBOOT, retry={**ONE_TRY, "attempts": 3})


def test_an_exhausted_node_that_stays_ill_is_no_news() -> None:
    """Neither when it could not be asked for a while, nor after a restart."""

    async def story(s: Stage) -> None:
        await exhaust(s)
        since = len(s.notifier.received)
        s.plan.rules += [Rule(fault=Fault.ERROR, call=call) for call in ("check", "read")]
        await s.clock.sleep(60)
        assert "unknown" in {n.health for n in await s.nodes()}
        del s.plan.rules[1:]
        await s.clock.sleep(60)
        await s.living[0].kill()
        s.start()
        await s.clock.sleep(60)
        assert not told(s, since)
        assert await states(s) == ["exhausted"]

    play(story, actions=REBOOT, retry=ONE_TRY)


# --- no node without a decision ------------------------------------------------------------------


class LateEnds:
    """A store in which the end of an action takes its time to be written."""

    def __init__(self, inner: Any, by_s: float) -> None:
        self._inner, self._by_s = inner, by_s
        self.met = 0

    async def write(self, work: Any, *, timeout_s: float = 10.0) -> Any:
        if "completion" in work.__code__.co_names and "end" in work.__code__.co_names:
            self.met += 1
            await asyncio.sleep(self._by_s)
        return await self._inner.write(work, timeout_s=timeout_s)

    async def read(self, work: Any, *, timeout_s: float = 10.0) -> Any:
        return await self._inner.read(work, timeout_s=timeout_s)


@pytest.mark.parametrize("late_s", [0.0, 0.7, 2.0, 6.0])
def test_no_node_is_left_unhealthy_without_a_decision(late_s: float) -> None:
    async def story(s: Stage) -> None:
        store: Any = s.living[0].ctx.store
        late = store._store = LateEnds(store._store, late_s)
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:REBOOT"))
        victim = s.node_ids()[0]
        s.world.kill(victim)
        undecided_s = 0.0
        for _ in range(240):
            await s.clock.sleep(0.5)
            undecided_s = undecided_s + 0.5 if await forgotten(s, victim) else 0.0
            assert undecided_s < 5, f"forgotten\n{await s.picture()}"
        assert late.met >= 3
        row = next(n for n in await s.nodes() if n.id == victim)
        assert row.exhausted_us is not None

    play(story, actions=REBOOT)


async def forgotten(s: Stage, victim: Any) -> bool:
    """Whether the node is unhealthy, nobody works on it and no decision says why."""

    def work(conn: Any) -> bool:
        mine = actions.c.node_id == victim
        rows = conn.execute(select(actions.c.status, actions.c.end_us).where(mine)).all()
        if any(r.end_us is None for r in rows):
            return False
        last = incidents.decisions_of(conn, victim, 1)
        ended_us = max(r.end_us for r in rows)
        return not last or last[0]["at_us"] < ended_us

    row = next(n for n in await s.nodes() if n.id == victim)
    return row.health == "unhealthy" and bool(await s.store.read(work))


# --- ends without healing ------------------------------------------------------------------------


def test_detaching_the_policy_ends_the_incident_and_what_was_seen_stays() -> None:
    async def story(s: Stage) -> None:
        await stop(s)
        s.world.kill(s.node_ids()[0])
        await s.clock.sleep(60)
        assert "WARNING" in {n.status for n in await s.nodes()}
        await s.commands.detach("web", "policy-web", by="op")
        await s.clock.sleep(60)
        # It is down still: that nobody looks any more has not brought it back.
        assert {n.status for n in await s.nodes()} == {"ACTIVE", "WARNING"}
        assert await states(s) == ["superseded"]
        assert told(s)[-1] == "superseded"
        # Whoever looks learns how it is, and it is well when it is watched again and is so.
        s.world.copies[s.node_ids()[0]][-1].stopped_s = None
        await s.commands.attach("web", "policy-web", by="op")
        await s.until(s.all_well, 60, "seen to be well")

    play(story)


def test_lifting_a_mark_that_no_check_contradicts_ends_incident_and_warning() -> None:
    async def story(s: Stage) -> None:
        await s.commands.detach("web", "policy-web", by="op")
        await stop(s)
        await s.clock.sleep(60)
        await s.commands.mark("web-2", reason="x", by="op")
        await s.clock.sleep(30)
        assert await states(s) == ["held"]
        await s.commands.unmark("web-2", reason="y", by="op")
        await s.clock.sleep(60)
        assert {n.status for n in await s.nodes()} == {"ACTIVE"}
        assert (await states(s))[-1] == "superseded"

    play(story)


def test_a_submit_that_bears_no_trace_leaves_no_node_recovering() -> None:
    async def story(s: Stage) -> None:
        async def absent(*_given: Any, **_named: Any) -> Progress:
            return Progress(state=ProgressState.ABSENT)

        profile: Any = s.living[0].ctx.drivers.profiles[s.profile.type]
        profile.submit = absent
        victim = s.node_ids()[0]
        s.world.hang(victim)
        await s.clock.sleep(25)
        s.world.revive(victim)
        await s.clock.sleep(120)
        assert await s.all_well(), await s.picture()

    play(story, actions=REBOOT)


def test_opened_is_told_once_however_many_tries_it_takes() -> None:
    async def story(s: Stage) -> None:
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="submit:REBOOT", times=2))
        s.world.kill(s.node_ids()[0])
        await s.clock.sleep(25)
        await s.until(s.all_well, 120, "healed at the third try")
        await s.clock.sleep(5)
        assert told(s).count("opened") == 1
        assert told(s)[-1] == "recovered"
        assert await states(s) == ["recovered"]

    play(story, actions=REBOOT)


# --- pace ----------------------------------------------------------------------------------------


class Batches:
    """Lies about one node to whoever asks about several at once: the watch, not the look."""

    def __init__(self, right: Any, victim: Any) -> None:
        self._right, self._victim = right, victim

    async def __call__(self, targets: Any, mode: Any, *, deadline_s: float) -> Any:
        seen = await self._right(targets, mode, deadline_s=deadline_s)
        if len(targets) == 1:
            return seen
        lie = {"outcome": Outcome.FAIL, "code": "L7-STATUS", "answered": True}
        return [replace(o, **lie) if o.node_id == self._victim else o for o in seen]


def test_a_watch_and_a_look_that_disagree_rest_in_between() -> None:
    async def story(s: Stage) -> None:
        detector: Any = s.living[0].ctx.drivers.detectors["NODE_STATUS_POLL_URL"]
        detector.check = Batches(detector.check, s.node_ids()[0])
        await s.clock.sleep(240)
        query = select(actions.c.created_us, actions.c.end_us).where(
            actions.c.action == "NODE_RECOVER"
        )
        rows = await s.store.read(lambda c: c.execute(query.order_by(actions.c.created_us)).all())
        assert len(rows) > 3
        rests = [(b.created_us - a.end_us) / 1e6 for a, b in pairwise(rows)]
        assert min(rests) >= 20 - 1e-3, rests

    # Longer than it takes to count the failures afresh, which is a rest of its own.
    play(story, retry={"attempts": 3, "backoff": 20, "max_backoff": 20, "stable_after": 60})


def test_pruning_keeps_up_with_more_than_one_batch() -> None:
    async def story(s: Stage) -> None:
        about = events.Subject(otype="NODE", oid="x", oname="x", cluster_id="", node_id=None)

        def work(conn: Any) -> None:
            for number in range(3 * prune.BATCH):
                events.append(conn, about, at_us=number, action="A", status="s", reason="", data={})
                conn.execute(
                    pauses_table.insert().values(
                        id=f"p{number}", kind="stop", scope="all", target_id="", owner="op",
                        reason="", starts_us=1, lifted_us=2,
                    )
                )  # fmt: skip

        await s.store.write(work)
        await s.clock.sleep(90)
        old = events_table.c.at_us < 1_000_000
        assert not await s.store.read(
            lambda c: c.execute(select(events_table.c.seq).where(old)).all()
        )
        assert not await s.store.read(lambda c: c.execute(select(pauses_table.c.id)).all())

    lonely(story)


# --- explained -----------------------------------------------------------------------------------


def goes_blind_when_one_is_sick(s: Stage) -> None:
    """Let the engine miss something between a verdict and its being written down."""
    engine = s.living[0].engine
    (watch,) = engine.watches.values()
    take = watch.beliefs.take

    def and_misses_something(*seen: Any) -> bool:
        changed = take(*seen)
        if watch.beliefs.sick:
            watch.beliefs.take = take  # type: ignore[method-assign]
            engine.blind("late loop")
        return changed

    watch.beliefs.take = and_misses_something  # type: ignore[method-assign]


@pytest.mark.parametrize("stopped", [False, True], ids=["healed", "held"])
def test_what_was_seen_before_we_were_blind_is_explained_by_what_is_seen_next(
    stopped: bool,
) -> None:
    async def story(s: Stage) -> None:
        if stopped:
            await stop(s)
        goes_blind_when_one_is_sick(s)
        s.world.hang(s.node_ids()[0])
        await s.clock.sleep(60)
        opened, *_, last = s.notifier.received
        assert opened.body["cause"] == "unexplained", "nothing that was seen before counts"
        rows = await s.store.read(
            lambda c: incidents.listed(c, open_only=False, node_id=None, limit=9)
        )
        assert [(i.cause, i.state) for i in rows] == [
            ("hanging", "held" if stopped else "recovered")
        ]
        assert stopped or last.body["cause"] == "hanging"

    play(story, actions=REBOOT, retry=ONE_TRY)


def test_a_held_node_that_answers_now_and_then_is_held_once() -> None:
    """What is wrong with it is known and unknown in turn; that is nothing to write down."""

    async def story(s: Stage) -> None:
        await stop(s)
        victim = s.node_ids()[0]
        s.world.hang(victim)
        await s.clock.sleep(60)
        before = await s.store.read(lambda c: len(incidents.decisions_of(c, victim, 99)))
        for _ in range(10):
            s.world.revive(victim)
            await s.clock.sleep(6)
            s.world.hang(victim)
            await s.clock.sleep(6)
        assert (await states(s)) == ["held"], "it has never been well for long enough"
        after = await s.store.read(lambda c: len(incidents.decisions_of(c, victim, 99)))
        assert (before, after) == (1, 1)

    play(story, actions=REBOOT, retry=ONE_TRY, rise=4)
