"""Words that take the right to act away count at every act, also for what an engine inherited."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from sqlalchemy import select
from tests.sim.stage import Stage, policy
from tests.sim.test_halting import ACTS, acted
from tests.sim.test_rules import play, results

from yaffle.model.incident import PauseKind, PauseScope
from yaffle.policy import parse_document
from yaffle.store.tables import actions, budgets, steps
from yaffle.testing import Fault, Rule

RECREATE = [{"name": "RECREATE", "timeout": 60}]
REBOOT = [{"name": "REBOOT", "timeout": 30}]
WORDS = ("stop", "maintenance", "delete")


async def say(s: Stage, word: str, victim: Any) -> None:
    """Let an operator, or the node's owner, take the right to heal away."""
    if word == "delete":
        await s.commands.delete_node(victim, by="op")
    elif word == "stop":
        await s.commands.pause(
            PauseKind.STOP, PauseScope.ALL, "", owner="op", reason="x", for_s=None
        )
    else:
        await s.commands.pause(
            PauseKind.MAINTENANCE, PauseScope.NODE, victim, owner="op", reason="x", for_s=None
        )


def acts(s: Stage, since: int, *, but: str = "") -> list[str]:
    """Return the acts asked of drivers since that many calls."""
    return [c for _, c, _ in s.plan.calls[since:] if c in ACTS and c != but]


async def dies_at(s: Stage, point: str, nth: int = 1) -> None:
    """Let the engine be killed when it comes to a point for the nth time, and wait for that."""
    life, met = s.living[0], itertools.count(1)

    def on_point(name: str) -> None:
        if name == point and next(met) == nth:
            life.gate.dead = True

    life.gate.on_point = on_point
    for _ in range(1200):
        if life.gate.dead:
            break
        await s.clock.sleep(0.1)
    await life.kill()


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("stage_of", [2, 4], ids=["fence", "create"])
def test_what_was_only_intended_is_refused_to_a_successor(stage_of: int, word: str) -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        s.world.hang(victim)
        # The intents of RECREATE: look, fence, delete, create.
        await dies_at(s, "after StepRunner._intend.work", stage_of)
        await say(s, word, victim)
        since = len(s.plan.calls)
        s.start()
        await s.clock.sleep(60)
        assert not acts(s, since, but="submit:DELETE" if word == "delete" else "")
        assert bool(s.world.alive(victim)) == (stage_of == 2 and word != "delete")

    play(story, actions=RECREATE)


@pytest.mark.parametrize("word", WORDS)
def test_no_fence_is_tried_again_after_a_word(word: str) -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        s.plan.rules.append(Rule(fault=Fault.HANG, call="fence"))
        fencing = acted(s, "fence")
        s.world.hang(victim)
        await s.until(fencing, 60, "fencing began")
        await say(s, word, victim)
        since = len(s.plan.calls)
        await s.clock.sleep(60)
        assert not acts(s, since, but="submit:DELETE" if word == "delete" else "")

    play(story, actions=RECREATE)


@pytest.mark.parametrize("word", WORDS)
def test_nothing_is_submitted_again_after_a_word(word: str) -> None:
    """The request got lost on its way: no answer, and no trace at the target."""

    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        s.plan.rules.append(Rule(fault=Fault.HANG, call="submit:REBOOT"))
        submitted = acted(s, "submit:REBOOT")
        s.world.hang(victim)
        await s.until(submitted, 60, "REBOOT was submitted")
        await say(s, word, victim)
        since = len(s.plan.calls)
        await s.clock.sleep(60)
        assert not acts(s, since, but="submit:DELETE" if word == "delete" else "")

    play(story, actions=REBOOT)


@pytest.mark.parametrize("word", ["stop", "maintenance"])
@pytest.mark.parametrize("dies", [False, True], ids=["alone", "successor"])
def test_what_was_submitted_is_followed_to_its_end(word: str, dies: bool) -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        submitted = acted(s, "submit:CREATE")
        s.world.hang(victim)
        if dies:
            await dies_at(s, "after submit CREATE")
        else:
            await s.until(submitted, 60, "CREATE was submitted")
        await say(s, word, victim)
        since = len(s.plan.calls)
        if dies:
            s.start()
        await s.clock.sleep(40)
        assert await s.all_well(), await s.picture()
        assert not acts(s, since)
        assert (await results(s))[-2:] == [("create", "done"), ("verify", "passed")]

    play(story, actions=RECREATE)


def test_what_may_act_twice_is_not_submitted_twice() -> None:
    """Its first request is still on its way when a successor finds no trace of it."""

    async def story(s: Stage) -> None:
        s.plan.rules.append(Rule(fault=Fault.LATE, call="submit:REBOOT", delay_s=12, times=1))
        victim = s.node_ids()[0]
        s.world.hang(victim)
        await dies_at(s, "after submit REBOOT")
        s.start()
        await s.clock.sleep(11)
        assert max(len(v) for v in s.audit.submits.values()) == 1
        assert ("act", "failed") in await results(s)

    play(story, forgetful=True, actions=REBOOT)


@pytest.mark.parametrize("word", ["observe", "detach"])
def test_a_policy_that_heals_no_more_is_obeyed_by_the_next_admission(word: str) -> None:
    """The operator was answered after the watch had read the policy, and before it planned."""

    async def story(s: Stage) -> None:
        gate = s.living[0].gate
        s.world.hang(s.node_ids()[0])

        def freeze(name: str) -> None:
            if name == "before ClusterWatcher._plan":
                gate.freeze()

        gate.on_point = lambda name: freeze(name.replace(".<lambda>", ""))
        for _ in range(1200):
            if gate.frozen:
                break
            await s.clock.sleep(0.05)
        assert gate.frozen
        if word == "observe":
            parsed = parse_document(policy(mode="observe"))
            await s.commands.update_policy("policy-web", parsed, source="", by="op")
        else:
            await s.commands.detach("web", "policy-web", by="op")
        since = len(s.plan.calls)
        gate.on_point = lambda _name: None
        gate.thaw()
        await s.clock.sleep(60)
        assert not acts(s, since)
        assert not await s.store.read(
            lambda c: c.execute(
                select(actions.c.id).where(actions.c.action == "NODE_RECOVER")
            ).all()
        )

    play(story)


@pytest.mark.parametrize(
    "point", ["after StepRunner._refusal", "after _again.work"], ids=["fence", "submit"]
)
def test_an_engine_that_froze_before_an_act_does_not_act_when_it_thaws(point: str) -> None:
    """It was given leave, and by the time that it could use it another engine had healed the node."""

    async def story(s: Stage) -> None:
        first, frozen = s.living[0], []

        def freeze(name: str) -> None:
            if name == point and not frozen:
                first.gate.freeze()
                frozen.append(s.start())

        first.gate.on_point = freeze
        s.world.hang(s.node_ids()[0])
        await s.clock.sleep(100)
        assert frozen
        assert await s.all_well(), await s.picture()
        since = len(s.plan.calls)
        first.gate.thaw()
        await s.clock.sleep(30)
        assert not acts(s, since)

    play(story, alone=False, actions=RECREATE)


def freeze_at(s: Stage, point: str, nth: int) -> None:
    """Let the engine stand still when it comes to a point for the nth time."""
    gate, met = s.living[0].gate, itertools.count(1)

    def on_point(name: str) -> None:
        if name == point and next(met) == nth:
            gate.freeze()

    gate.on_point = on_point


def test_a_late_hand_writes_nothing() -> None:
    """Thawed while its successor is in the middle of the same action."""

    async def story(s: Stage) -> None:
        first = s.living[0]
        assert first.engine.session is not None
        old = first.engine.session.epoch
        s.plan.rules.append(Rule(fault=Fault.HANG, call="poll:CREATE"))
        freeze_at(
            s, "before StepRunner._advance.<lambda>", 2
        )  # the fence is proved, and not written yet
        s.world.hang(s.node_ids()[0])
        await s.clock.sleep(15)
        assert first.gate.frozen
        s.start()
        creating = acted(s, "submit:CREATE")
        await s.until(creating, 60, "the successor makes a new copy")
        thawed_us = s.clock.now_us()
        first.gate.thaw()
        await s.clock.sleep(5)
        rows = await s.store.read(lambda c: c.execute(select(steps)).all())
        assert not [r for r in rows if r.epoch == old and (r.ended_us or 0) >= thawed_us]
        s.plan.rules.clear()
        await s.until(s.all_well, 120, "healed")

    play(story, alone=False, actions=RECREATE)


# --- time and tokens -----------------------------------------------------------------------------


@pytest.mark.parametrize("by_s", [3600, -3600])
def test_a_clock_that_jumps_waives_no_proof(by_s: float) -> None:
    async def story(s: Stage) -> None:
        s.plan.rules.append(Rule(fault=Fault.ERROR, call="fence", times=5))
        fencing = acted(s, "fence")
        s.world.hang(s.node_ids()[0])
        await s.until(fencing, 60, "fencing began")
        s.clock.step(by_s)
        await s.clock.sleep(60)
        assert not {r for _, r in await results(s)} & {"waived", "unproved"}, await results(s)
        assert ("create", "done") in await results(s)

    play(story, actions=RECREATE, node_force_recreate=True)


@pytest.mark.parametrize("by_s", [3600, -3600])
def test_a_clock_that_jumps_neither_fails_nor_prolongs_an_act(by_s: float) -> None:
    async def story(s: Stage) -> None:
        s.plan.rules.append(Rule(fault=Fault.HANG, call="poll:REBOOT"))
        s.plan.rules.append(Rule(fault=Fault.LOSE, call="submit:REBOOT"))
        submitted = acted(s, "submit:REBOOT")
        s.world.hang(s.node_ids()[0])
        await s.until(submitted, 60, "REBOOT was submitted")
        began_s = s.clock.monotonic_s()
        await s.clock.sleep(3)
        s.clock.step(by_s)

        async def given_up() -> bool:
            return ("act", "unclear") in await results(s)

        await s.until(given_up, 60, "the act was given up")
        assert 25 <= s.clock.monotonic_s() - began_s <= 36

    play(story, actions=REBOOT)


def test_a_recovery_that_touched_nothing_gives_its_tokens_back() -> None:
    async def story(s: Stage) -> None:
        name = next(n.name for n in await s.nodes() if n.id == s.node_ids()[0])
        s.plan.rules.append(Rule(fault=Fault.LIE, call="check", node=name, times=2))
        spent = False
        for _ in range(3000):
            ended = await s.store.read(
                lambda c: c.execute(
                    select(actions.c.end_us).where(actions.c.action == "NODE_RECOVER")
                ).scalar()
            )
            rows = await s.store.read(lambda c: c.execute(select(budgets)).all())
            spent |= any(r.tokens < s.limit_of(r.key).burst for r in rows if r.scope == "cluster")
            if ended is not None:
                break
            await s.clock.sleep(0.01)
        assert spent, "nothing was ever spent"
        assert [r.tokens for r in rows if r.scope == "cluster"] == [s.limit_of("x").burst]
        assert [r.tokens for r in rows if r.scope == "global"] == [s.limit_of("all").burst]
        assert set(await results(s)) == {("look", "healthy")}

    play(story)


def test_a_fence_that_nobody_was_there_to_try_is_tried_before_it_is_waived() -> None:
    async def story(s: Stage) -> None:
        s.world.hang(s.node_ids()[0])
        await dies_at(s, "before fence")
        await s.clock.sleep(120)
        s.start()
        await s.until(s.all_well, 60, "healed")
        assert ("fence", "proved") in await results(s)

    play(story, actions=RECREATE, node_force_recreate=True)
