"""An act goes by what was seen right before it: what is well since, or was lost and is back, is left."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select
from tests.sim.hosted import HYPERVISORS, Machines
from tests.sim.hosted import moving as hosted_policy
from tests.sim.stage import Stage
from tests.sim.test_fencers import Saying
from tests.sim.test_hosts import play as on_machines
from tests.sim.test_node_actions import node
from tests.sim.test_refusals import REBOOT, RECREATE, acts
from tests.sim.test_rules import results
from tests.sim.test_unasked import drivers, eyes, play, told

from yaffle.model.health import Observation, Outcome
from yaffle.model.operations import (
    FenceResult,
    FenceVerdict,
    Hindrance,
    Operation,
    Progress,
    ProgressState,
    Proof,
    Target,
)
from yaffle.policy import parse_document
from yaffle.store.tables import incidents

EVIDENCE = {"console_log": True, "timeout": 20}


# --- what is well by itself ------------------------------------------------------------------------


class Spell:
    """One node looks sick until it is over, whatever it is."""

    def __init__(self, s: Stage) -> None:
        self.victim, self.on = s.node_ids()[0], True
        eyes(s, self._see)

    def _see(self, seen: Observation) -> Observation:
        if not self.on or seen.node_id != self.victim:
            return seen
        return replace(seen, outcome=Outcome.FAIL, code="ST-DOWN", detail="no beat")


async def left_alone(s: Stage, since: int) -> None:
    await s.clock.sleep(120)
    await s.until(s.all_well, 60, "well by itself")
    assert acts(s, since) == []
    assert not s.world.acts


def test_what_becomes_well_while_evidence_is_taken_is_left_alone() -> None:
    async def story(s: Stage) -> None:
        spell = Spell(s)
        profile = next(iter(drivers(s).profiles.values()))

        async def slowly(target: Any, *, deadline_s: float) -> str:
            await s.clock.sleep(15)
            spell.on = False
            return "a console"

        profile.capture = slowly
        await left_alone(s, len(s.plan.calls))
        assert await results(s) == [("look", "sick"), ("evidence", "done"), ("look", "healthy")]

    play(story, actions=RECREATE, evidence=EVIDENCE)


@pytest.mark.parametrize("waived", [False, True], ids=["", "a proof is waived"])
def test_what_becomes_well_between_two_tries_of_a_fence_is_left_alone(waived: bool) -> None:
    async def story(s: Stage) -> None:
        spell, fencers = Spell(s), drivers(s).fencers

        class Hesitant(Saying):
            async def fence(self, target: Any, **more: Any) -> FenceResult:
                spell.on = self.asked < 1
                return await super().fence(target, **more)

        fencers["COMPUTE"] = fencer = Hesitant(fencers["COMPUTE"], "cannot tell")
        await left_alone(s, len(s.plan.calls))
        assert fencer.asked == 2
        assert await results(s) == [("look", "sick"), ("fence", "unclear")]
        assert "it is well by now" in (await told(s, "fence"))[0]

    play(story, actions=RECREATE + REBOOT, node_force_recreate=waived)


@pytest.mark.parametrize("kind", ["REBOOT", "DELETE"])
def test_what_becomes_well_before_an_act_is_sent_again_is_left_alone(kind: str) -> None:
    async def story(s: Stage) -> None:
        spell, profile, sent = Spell(s), next(iter(drivers(s).profiles.values())), []

        async def lost(op: Operation, **_: Any) -> Progress:
            sent.append(op.kind)
            spell.on = False
            return Progress(
                state=ProgressState.RUNNING,
                detail="no answer",
                hindrance=Hindrance.UNASKED,
                untold=True,
            )

        async def no_trace(op: Operation, **_: Any) -> Progress:
            return Progress(state=ProgressState.ABSENT)

        profile.submit, profile.poll = lost, no_trace
        await left_alone(s, len(s.plan.calls))
        assert sent == [kind]
        # What mends may have worked without a trace, so that nobody says that it got well by itself.
        mended = [("act", "done"), ("verify", "passed")]
        assert (await results(s))[1:] == (mended if kind == "REBOOT" else [("delete", "unclear")])
        ended = await s.store.read(lambda c: c.scalars(select(incidents.c.state)).all())
        assert list(ended) == ["recovered" if kind == "REBOOT" else "already-healthy"]

    play(story, actions=REBOOT if kind == "REBOOT" else RECREATE, fencing=[])


# --- what was lost with its host, and is back ------------------------------------------------------


class Careful(Saying):
    """As COMPUTE on a host that is back: whom it is to end is well, if nothing but the host was lost."""

    seen: list[Target]

    def __init__(self, inside: Any) -> None:
        super().__init__(inside, "proves")
        self.seen = []

    async def fence(self, target: Any, **more: Any) -> FenceResult:
        self.seen.append(target)
        if not target.host_lost:
            return await super().fence(target, **more)
        return FenceResult(
            verdict=FenceVerdict.REFUSED, detail="its host is up again", hindrance=Hindrance.OVER
        )


def on_a_lost_host(
    story: Callable[[Stage, Machines, Careful, Saying], Awaitable[None]],
    *,
    fencing: Sequence[str] = ("COMPUTE", "HOST"),
    **changed: Any,
) -> None:
    """Tell a story of a backend that calls a host lost whose nodes are well."""
    changed = {
        "actions": RECREATE + REBOOT,
        "retry": {"attempts": 2, "backoff": 5, "max_backoff": 40},
        "limits": {"max_unhealthy": "100%", "max_in_flight": 2},
        **changed,
    }

    async def scene(s: Stage, machines: Machines) -> None:
        fencers = drivers(s).fencers
        fencers["COMPUTE"] = careful = Careful(fencers["COMPUTE"])
        fencers["HOST"] = switch = Saying(careful, "refuses")
        s.ctx.drivers.fencers["HOST"] = switch  # type: ignore[index]
        whole = hosted_policy(HYPERVISORS, fencing=list(fencing), **changed)
        await s.commands.update_policy("policy-web", parse_document(whole), source="", by="op")
        await s.clock.sleep(30)
        s.world.acts.clear()
        machines.barred.add("cmp1")
        await story(s, machines, careful, switch)

    on_machines(scene, hosted_policy(HYPERVISORS, fencing=[], **changed), size=3)


@pytest.mark.parametrize("waived", [False, True], ids=["", "a proof is waived"])
def test_a_host_that_is_back_is_a_reason_for_no_act_by_whatever_means(waived: bool) -> None:
    async def story(s: Stage, machines: Machines, careful: Careful, switch: Saying) -> None:
        (victim, *_) = machines.on("cmp1")
        await s.clock.sleep(100)
        assert careful.seen
        assert all(target.host_lost for target in careful.seen)
        assert switch.asked == 0, "another fencer would end what is well"
        assert set(await results(s)) == {("look", "sick"), ("fence", "unclear")}
        row = await node(s, victim)
        assert (row.attempts, row.exhausted_us) == (0, None)
        machines.barred.clear()
        await s.until(s.all_well, 120, "well, as it was all the time")
        assert not s.world.acts

    on_a_lost_host(story, node_force_recreate=waived)


def test_whoever_insists_means_the_node_and_not_what_was_seen_of_its_host() -> None:
    async def story(s: Stage, machines: Machines, careful: Careful, switch: Saying) -> None:
        (victim, *_) = machines.on("cmp1")
        await s.clock.sleep(60)
        careful.seen.clear()
        await s.commands.mark(victim, reason="its disk clicks", by="op")
        await s.clock.sleep(60)
        assert careful.seen
        assert not careful.seen[-1].host_lost
        assert ("fence", "proved") in await results(s)

    on_a_lost_host(story)


def test_what_is_proved_dead_is_given_up_wherever_its_host_is_by_then() -> None:
    async def story(s: Stage, machines: Machines, careful: Careful, switch: Saying) -> None:
        proof = Proof(method="test", evidence="off", at_us=1, by="test")
        proved = FenceResult(verdict=FenceVerdict.CONFIRMED, detail="off", proof=proof)

        async def proves(target: Target, **_: Any) -> FenceResult:
            assert target.host_lost
            return proved

        careful.fence = proves  # type: ignore[method-assign]
        profile, asked = next(iter(drivers(s).profiles.values())), []
        submit = profile.submit

        async def heard(op: Operation, **more: Any) -> Progress:
            asked.append((op.kind, op.target.host_lost))
            return await submit(op, **more)  # type: ignore[no-any-return]

        profile.submit = heard
        await s.clock.sleep(60)
        assert {("DELETE", False), ("CREATE", False)} <= set(asked)
        assert not any(lost for _, lost in asked)

    on_a_lost_host(story, actions=RECREATE)


def test_what_was_given_up_on_a_lost_host_is_deleted_once_that_is_back() -> None:
    """The proof is waived, another copy runs, and somebody goes on deleting the old one."""

    async def story(s: Stage, machines: Machines, careful: Careful, switch: Saying) -> None:
        profile, asked = next(iter(drivers(s).profiles.values())), []
        (victim, *_) = machines.on("cmp1")
        old, submit = (await node(s, victim)).physical_id, profile.submit

        async def heard(op: Operation, **more: Any) -> Progress:
            if op.kind != "DELETE" or op.target.physical_id != old:
                return await submit(op, **more)  # type: ignore[no-any-return]
            asked.append(op.target.host_lost)
            return Progress(state=ProgressState.FAILED, detail="its host is down")

        profile.submit = heard
        await s.clock.sleep(120)
        assert ("delete", "waived") in await results(s)
        assert asked[0] is True
        assert len(asked) > 1
        assert not any(asked[1:]), "the reason of that rung is none for what is given up"

    on_a_lost_host(story, actions=RECREATE, fencing=[], node_force_recreate=True)


@pytest.mark.parametrize("fencing", [[], ["COMPUTE"]], ids=["unfenced", "in-place"])
def test_every_act_that_nothing_was_proved_for_is_told_that_the_host_was_lost(
    fencing: list[str],
) -> None:
    async def story(s: Stage, machines: Machines, careful: Careful, switch: Saying) -> None:
        profile, asked = next(iter(drivers(s).profiles.values())), []

        async def heard(op: Operation, **_: Any) -> Progress:
            asked.append((op.kind, op.target.host_lost))
            return Progress(state=ProgressState.FAILED, detail="up again", hindrance=Hindrance.OVER)

        profile.submit = heard
        await s.clock.sleep(60)
        assert set(asked) == {("REBOOT" if fencing else "DELETE", True)}
        assert {result for stage, result in await results(s) if stage != "look"} == {"unclear"}

    on_a_lost_host(story, actions=REBOOT if fencing else RECREATE, fencing=fencing)
