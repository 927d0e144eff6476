"""What could not be asked is no answer, in any step: no ground for a stronger one, no attempt spent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, ClassVar

import pytest
from sqlalchemy import select
from tests.sim import test_rules
from tests.sim.stage import Stage, policy
from tests.sim.test_fencers import Saying
from tests.sim.test_node_actions import node
from tests.sim.test_preflight import begun, recoveries
from tests.sim.test_refusals import REBOOT, RECREATE, acts
from tests.sim.test_rules import results
from tests.sim.test_wishes import URL, Record

from yaffle.config import BudgetSettings, BudgetsSettings
from yaffle.engine.explain import Explainer
from yaffle.engine.steps.objections import REFUSED
from yaffle.errors import DependencyError, StoreUnavailable
from yaffle.model.authz import LOCAL
from yaffle.model.health import Observation, Outcome
from yaffle.model.ids import NodeId
from yaffle.model.operations import (
    Actor,
    Cause,
    FenceResult,
    FenceVerdict,
    Hindrance,
    PoweredOff,
    Progress,
    ProgressState,
    Promise,
    Target,
)
from yaffle.policy import parse_document
from yaffle.store import catalog, journal
from yaffle.store.tables import budgets, steps
from yaffle.testing import Fault, Rule

SILENCES = [Fault.STUCK, Fault.RAISE, Fault.ERROR, Fault.HANG]
SIX = {
    "limits": {"max_unhealthy": "100%", "max_in_flight": 2},
    "retry": {"attempts": 3, "backoff": 5, "max_backoff": 20},
    "budgets": BudgetsSettings(
        **dict.fromkeys(
            ("total", "project", "domain", "host", "cluster"),
            BudgetSettings(max_in_flight=20, burst=20, per_hour=0.001),
        )
    ),
}
"""Six servers, all of them sick at once, and budgets that nothing fills but what is given back."""


def play(story: Callable[[Stage], Awaitable[None]], size: int = 2, **changed: Any) -> None:
    changed.setdefault("actions", REBOOT + RECREATE)
    changed.setdefault("retry", {"attempts": 2, "backoff": 5, "max_backoff": 40})
    test_rules.play(story, size, **changed)


def drivers(s: Stage) -> Any:
    return s.lives[0].ctx.drivers


async def told(s: Stage, stage: str) -> list[str]:
    query = select(steps.c.detail).where(steps.c.stage == stage, steps.c.phase == journal.ENDED)
    return [row.detail for row in await s.store.read(lambda c: c.execute(query).all())]


# --- acts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", SILENCES, ids=lambda f: f.value)
def test_an_act_that_a_driver_gave_no_answer_to_hands_over_to_no_stronger_one(fault: Fault) -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        s.plan.rules.append(Rule(fault=fault, call="*:REBOOT"))
        since = len(s.plan.calls)
        s.world.kill(victim)
        await s.clock.sleep(300)
        assert set(acts(s, since)) == {"submit:REBOOT"}
        assert set(await results(s)) == {("look", "sick"), ("act", "unclear")}
        row = await node(s, victim)
        assert (row.attempts <= 1, row.exhausted_us) == (True, None)
        why = (await Explainer(s.ctx).why(LOCAL, victim)).last_attempt
        assert [(t["operation"], t["result"]) for t in why] == [("REBOOT", "unclear")]
        s.plan.rules.clear()
        await s.until(s.all_well, 120, "healed by the same rung, now that an answer comes")

    play(story)


class Workflow:
    """A driver of workflows that says `answer` to whoever begins one."""

    type: ClassVar[str] = "COMMAND"
    promises: ClassVar[frozenset[Promise]] = frozenset({Promise.DEDUPLICATES})

    def __init__(self, answer: Progress, heal: Callable[[NodeId], None]) -> None:
        self.answer, self._heal = answer, heal
        self.begun = 0

    def validate(self, name: str, params: Mapping[str, object]) -> None:
        """Accept."""

    def in_place(self, name: str) -> bool:
        """Make no second copy."""
        return True

    async def submit(self, _name: str, _params: object, target: Target, **_: Any) -> Progress:
        self.begun += 1
        if self.answer.state is ProgressState.DONE:
            self._heal(target.node_id)
        return self.answer

    async def poll(self, *_given: Any, **_named: Any) -> Progress:
        return self.answer


def test_a_workflow_that_could_not_be_begun_here_is_no_ground_for_a_stronger_act() -> None:
    """A full disk, a program that is not installed, a switch that is off: nobody was asked."""

    async def story(s: Stage) -> None:
        workflow = Workflow(Progress.not_begun("No space left on device"), s.world.revive)
        drivers(s).workflows["COMMAND"] = workflow
        s.ctx.drivers.workflows["COMMAND"] = workflow  # type: ignore[index]
        ladder = [{"name": "mend", "type": "COMMAND", "timeout": 20}, *RECREATE]
        document = parse_document(policy(actions=ladder))
        await s.commands.create_policy("mending", document, source="", by="sim")
        known = set(s.node_ids())
        await s.commands.create_cluster("mended", "profile-web", 2, by="sim", policy="mending")
        await s.clock.sleep(60)
        victim = next(ident for ident in s.node_ids() if ident not in known)
        before = len(s.world.acts)
        s.world.hang(victim)
        await s.clock.sleep(300)
        assert workflow.begun >= 3
        assert s.world.acts[before:] == []
        row = await node(s, victim)
        assert (row.attempts <= 1, row.exhausted_us) == (True, None)
        workflow.answer = Progress(state=ProgressState.DONE, detail="mended")
        await s.until(s.all_well, 120, "mended once it can be begun")
        assert s.world.acts[before:] == []

    play(story)


def test_what_may_have_been_done_unseen_is_repeated_ever_more_rarely() -> None:
    async def story(s: Stage) -> None:
        s.plan.rules.append(Rule(fault=Fault.STUCK, call="*:REBOOT"))
        s.world.kill(s.node_ids()[0])
        await s.clock.sleep(500)
        at = await begun(s)
        gaps = [after - before for before, after in pairwise(at)]
        assert len(gaps) >= 5
        assert all(after > before + 4 for before, after in pairwise(gaps[:4]))
        assert gaps[-1] < 30 + 40 + 15, "no longer than the longest rest"

    play(story)


def never_heard_of_again(s: Stage) -> None:
    """Let the backend say yes to a REBOOT, and be silent since."""
    (kind,) = drivers(s).profiles
    profile = drivers(s).profiles[kind]
    submit, poll = profile.submit, profile.poll

    async def taken_up(op: Any, **more: Any) -> Progress:
        if op.kind != "REBOOT":
            return await submit(op, **more)  # type: ignore[no-any-return]
        return Progress(state=ProgressState.RUNNING, detail="accepted (req-1)")

    async def silent(op: Any, **more: Any) -> Progress:
        if op.kind == "REBOOT":
            raise DependencyError("the backend is away")
        return await poll(op, **more)  # type: ignore[no-any-return]

    profile.submit, profile.poll = taken_up, silent


def test_what_was_taken_up_and_has_not_helped_in_its_time_may_be_followed_by_a_proved_fence() -> (
    None
):
    """The backend has said yes, and is silent since: the next rung looks, and its fence is proved."""

    async def story(s: Stage) -> None:
        never_heard_of_again(s)
        s.world.hang(s.node_ids()[0])
        await s.clock.sleep(30)
        await s.until(s.all_well, 120, "made anew")
        assert ("act", "failed") in await results(s)
        assert ("fence", "proved") in await results(s)
        (why,) = await told(s, "act")
        assert "accepted (req-1); since then: " in why

    play(story)


def test_a_poll_that_the_end_of_the_step_cuts_short_is_not_the_last_word() -> None:
    async def story(s: Stage) -> None:
        (kind,) = drivers(s).profiles
        profile = drivers(s).profiles[kind]

        async def rebooting(op: Any, *, operation_id: Any, deadline_s: float) -> Progress:
            if deadline_s >= 3:
                return Progress(state=ProgressState.RUNNING, detail="rebooting")
            return Progress(
                state=ProgressState.RUNNING, detail="too short", hindrance=Hindrance.UNASKED
            )

        profile.submit, profile.poll = rebooting, rebooting
        s.world.kill(s.node_ids()[0])
        await s.clock.sleep(75)
        assert "out of time: rebooting" in await told(s, "act")

    play(story, actions=REBOOT, budgets=SIX["budgets"])


# --- fences and deletions --------------------------------------------------------------------------


@pytest.mark.parametrize("fault", SILENCES, ids=lambda f: f.value)
@pytest.mark.parametrize("call", ["fence", "*:DELETE"])
def test_a_fence_or_deletion_that_could_not_be_asked_for_is_no_failed_rung(
    call: str, fault: Fault
) -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        s.plan.rules.append(Rule(fault=fault, call=call))
        since = len(s.plan.calls)
        s.world.hang(victim)
        await s.clock.sleep(250)
        assert "submit:REBOOT" not in acts(s, since)
        stage = "fence" if call == "fence" else "delete"
        assert set(await results(s)) == {("look", "sick"), (stage, "unclear")}
        row = await node(s, victim)
        assert (row.attempts <= 1, row.exhausted_us) == (True, None)
        s.plan.rules.clear()
        await s.until(s.all_well, 150, "healed")

    fencing = ["COMPUTE"] if call == "fence" else []
    play(story, actions=RECREATE + REBOOT, fencing=fencing)


def test_a_proved_fence_carries_a_creation_though_the_deletion_could_not_be_asked_for() -> None:
    async def story(s: Stage) -> None:
        s.plan.rules.append(Rule(fault=Fault.STUCK, call="*:DELETE"))
        s.world.hang(s.node_ids()[0])
        await s.clock.sleep(40)
        await s.until(s.all_well, 120, "made anew")
        assert ("delete", "left-behind") in await results(s)

    play(story, actions=RECREATE)


class Short(Saying):
    """A fencer that is told why with a whole try's time, and with less cannot ask."""

    async def fence(self, target: Any, *, operation_id: Any, deadline_s: float) -> FenceResult:
        if deadline_s >= 3:
            return FenceResult(verdict=FenceVerdict.UNKNOWN, detail="the switch says on")
        return FenceResult(
            verdict=FenceVerdict.UNKNOWN, detail="no time", hindrance=Hindrance.UNASKED
        )


def test_a_try_of_a_fence_that_was_cut_short_is_not_what_ends_it() -> None:
    async def story(s: Stage) -> None:
        fencers = drivers(s).fencers
        fencers["COMPUTE"] = Short(fencers["COMPUTE"], "")
        s.world.hang(s.node_ids()[0])
        await s.clock.sleep(50)
        assert ("fence", "unproved") in await results(s)
        assert "the switch says on" in (await told(s, "fence"))[0]

    play(story, actions=RECREATE)


class Undecided(Saying):
    """A fencer that cannot say whether it knows the node."""

    def supports(self, target: Any) -> bool:
        raise DependencyError("the backend is away")


@pytest.mark.parametrize("silent", [True, False], ids=["no-answer", "not-whether-it-can"])
def test_one_fencers_no_is_not_the_word_of_another_that_could_not_be_asked(silent: bool) -> None:
    async def story(s: Stage) -> None:
        fencers = drivers(s).fencers
        inside = fencers["COMPUTE"]
        fencers["HOST"] = Saying(inside, "refuses")
        s.ctx.drivers.fencers["HOST"] = fencers["HOST"]  # type: ignore[index]
        if silent:
            s.plan.rules.append(Rule(fault=Fault.STUCK, call="fence"))
        else:
            fencers["COMPUTE"] = Undecided(inside, "")
        both = policy(actions=RECREATE + REBOOT, fencing=["COMPUTE", "HOST"])
        await s.commands.update_policy("policy-web", parse_document(both), source="", by="op")
        since = len(s.plan.calls)
        s.world.hang(s.node_ids()[0])
        await s.clock.sleep(150)
        assert ("fence", "unclear") in await results(s)
        assert ("fence", "unproved") not in await results(s)
        assert "submit:REBOOT" not in acts(s, since)

    play(story, actions=RECREATE + REBOOT)


def test_what_could_be_made_again_and_nobody_tells_spends_no_try() -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        s.plan.rules.append(Rule(fault=Fault.STUCK, call="foresee"))
        since = len(s.plan.calls)
        s.world.hang(victim)
        await s.clock.sleep(150)
        assert not acts(s, since)
        assert ("fence", "unclear") in await results(s)
        assert ("fence", "unproved") not in await results(s)
        assert (await node(s, victim)).exhausted_us is None
        s.plan.rules.clear()
        await s.until(s.all_well, 60, "healed")

    play(story, actions=RECREATE, foreseeing=True)


# --- looking whether it helped ---------------------------------------------------------------------


def eyes(s: Stage, see: Callable[[Observation], Observation]) -> None:
    """Let every mode of detection see through `see`."""
    for detector in drivers(s).detectors.values():
        check = detector.check

        async def seen(
            targets: Any, mode: Any, *, deadline_s: float, check: Any = check
        ) -> Sequence[Observation]:
            return [see(o) for o in await check(targets, mode, deadline_s=deadline_s)]

        detector.check = seen


def unknown(seen: Observation) -> Observation:
    return replace(seen, outcome=Outcome.UNKNOWN, code="X-LOCAL", answered=False, detail="no eyes")


def test_whether_it_helped_could_not_be_seen_and_so_it_is_not_answered_by_a_stronger_act() -> None:
    async def story(s: Stage) -> None:
        victim = s.node_ids()[0]
        away: list[bool] = []
        eyes(s, lambda seen: unknown(seen) if away else seen)
        s.plan.rules.append(Rule(fault=Fault.HALF, call="submit:REBOOT"))
        profile = next(iter(drivers(s).profiles.values()))
        submit = profile.submit

        async def believed(op: Any, **more: Any) -> Progress:
            await submit(op, **more)
            away.append(True)
            return Progress(state=ProgressState.DONE, detail="rebooted, it says")

        profile.submit = believed
        since = len(s.plan.calls)
        s.world.hang(victim)
        await s.clock.sleep(120)
        assert set(acts(s, since)) == {"submit:REBOOT"}
        assert ("verify", "unclear") in await results(s)
        assert ("verify", "failed") not in await results(s)
        row = await node(s, victim)
        assert (row.attempts, row.exhausted_us) == (0, None)
        assert "no eyes" in row.status_reason
        profile.submit = submit
        s.plan.rules.clear()
        away.clear()
        await s.until(s.all_well, 120, "looked at again, and healed")

    play(story)


def test_one_look_that_nothing_came_of_is_not_the_last_word() -> None:
    async def story(s: Stage) -> None:
        flicker = [0]

        def see(seen: Observation) -> Observation:
            flicker[0] += 1
            return unknown(seen) if flicker[0] % 3 == 0 and verifying else seen

        verifying: list[bool] = []
        eyes(s, see)
        s.plan.rules.append(Rule(fault=Fault.LIE, call="submit:REBOOT"))
        victim = s.node_ids()[0]
        s.world.hang(victim)

        async def acted() -> bool:
            return ("act", "done") in await results(s)

        await s.until(acted, 60, "rebooted, it says")
        verifying.append(True)
        await s.clock.sleep(60)
        assert ("verify", "unclear") not in await results(s)
        (why,) = await told(s, "verify")
        assert "not healthy within" in why

    play(story, actions=REBOOT, retry={"attempts": 1, "backoff": 5, "max_backoff": 10})


def test_what_a_look_was_told_is_not_pushed_out_by_one_that_nothing_came_of() -> None:
    async def story(s: Stage) -> None:
        record = Record(s, Cause(actor=Actor.UNASKED, detail="the record does not answer"))
        eyes(s, lambda seen: unknown(seen) if record.asked else seen)
        s.world.kill(s.node_ids()[0])
        await s.clock.sleep(60)
        why = (await told(s, "look"))[-1]
        assert "the record does not answer" in why
        assert why.endswith("; since then: no eyes")

    play(story, detection_modes=URL)


# --- snapshots -------------------------------------------------------------------------------------


def test_one_snapshot_of_a_failure_though_its_first_try_was_given_back() -> None:
    async def story(s: Stage) -> None:
        s.plan.rules.append(Rule(fault=Fault.STUCK, call="fence"))
        since = len(s.plan.calls)
        s.world.hang(s.node_ids()[0])
        await s.clock.sleep(200)
        assert await recoveries(s) >= 3
        assert acts(s, since).count("submit:SNAPSHOT") <= 1
        assert [c for _, c, _ in s.plan.calls[since:]].count("submit:SNAPSHOT") == 1

    play(story, actions=RECREATE, snapshot={"take": True, "restore": True, "timeout": 20})


def test_an_outage_while_an_earlier_snapshot_is_looked_for_damages_nothing() -> None:
    async def story(s: Stage) -> None:
        store: Any = s.lives[0].ctx.store
        s.plan.rules.append(Rule(fault=Fault.FAIL, call="fence", times=1))
        s.world.hang(s.node_ids()[0])
        write, read, missed = store.write, store.read, []

        def names(work: Any) -> bool:
            return "_earlier" in getattr(work, "__qualname__", "") and len(missed) < 3

        async def away(work: Any, on: Any, named: dict[str, Any]) -> Any:
            if names(work):
                missed.append(work)
                raise StoreUnavailable("simulated: gone for a moment")
            return await on(work, **named)

        store.write = lambda work, **named: away(work, write, named)
        store.read = lambda work, **named: away(work, read, named)
        await s.clock.sleep(20)
        await s.until(s.all_well, 150, "healed")
        assert missed
        row = await node(s, s.node_ids()[0])
        assert row.exhausted_us is None

    play(story, actions=RECREATE, snapshot={"take": True, "restore": True, "timeout": 20})


# --- what others share -----------------------------------------------------------------------------


class Switch(Saying):
    """A fencer that says which host it has read back as off."""

    async def fence(self, target: Any, *, operation_id: Any, deadline_s: float) -> FenceResult:
        done = await super().fence(target, operation_id=operation_id, deadline_s=deadline_s)
        return replace(done, off=PoweredOff(host="cmp1")) if done.proof else done


async def tokens(s: Stage) -> dict[str, float]:
    rows = await s.store.read(lambda c: c.execute(select(budgets)).all())
    return {row.scope: row.tokens for row in rows}


async def on_one_host(s: Stage) -> None:
    """Put all servers on one host."""
    for ident in s.node_ids():
        row = await node(s, ident)
        facts = {**row.attributes, "host": "cmp1"}
        await s.store.write(
            lambda c, i=ident, f=facts: catalog.set_node(c, i, s.clock.now_us(), attributes=f)
        )


@pytest.mark.parametrize(("answer", "cost"), [("refuses", 0), ("cannot tell", 1)])
def test_fences_that_are_never_proved_cost_what_they_may_have_ended(answer: str, cost: int) -> None:
    """Six servers of one host: each is bounded by its own tries, and nobody else is held for them."""

    async def story(s: Stage) -> None:
        await on_one_host(s)
        fencers = drivers(s).fencers
        fencers["COMPUTE"] = fencer = Saying(fencers["COMPUTE"], answer)
        for ident in s.node_ids():
            s.world.hang(ident)
        await s.clock.sleep(600)
        assert await recoveries(s) == 6 * 3, "each node's own tries bound it"
        assert fencer.asked >= 6 * 3
        # What was refused has ended nothing. Else each copy may have ended, once: a failure, a token.
        left = await tokens(s)
        assert all(round(tokens_left) == 20 - 6 * cost for tokens_left in left.values()), left
        assert all([(await node(s, i)).exhausted_us for i in s.node_ids()])

    play(story, 6, actions=RECREATE, **SIX)


@pytest.mark.parametrize("proves", [True, False], ids=["of-its-host", "of-the-copy"])
def test_a_host_that_is_proved_off_once_more_spends_nothing_where_all_else_is_refused(
    proves: bool,
) -> None:
    """The backend may not force the host down: it refuses at once to delete and to make."""

    async def story(s: Stage) -> None:
        await on_one_host(s)
        fencers, profile = drivers(s).fencers, next(iter(drivers(s).profiles.values()))
        submit = profile.submit
        if proves:
            fencers["COMPUTE"] = Switch(fencers["COMPUTE"], "proves")

        async def refusing(op: Any, **more: Any) -> Progress:
            if op.kind not in {"DELETE", "CREATE"}:
                return await submit(op, **more)  # type: ignore[no-any-return]
            return Progress(state=ProgressState.FAILED, detail="may not force cmp1 down")

        profile.submit = refusing
        for ident in s.node_ids():
            s.world.hang(ident)
        await s.clock.sleep(300)
        assert await recoveries(s) == 6 * 3
        query = select(steps.c.stage, steps.c.data).where(steps.c.result != "done")
        found = await s.store.read(lambda c: c.execute(query).all())
        assert all(row.data.get(REFUSED) for row in found if row.stage in {"delete", "create"})
        left = await tokens(s)
        assert all(round(t) == (14 if proves else 2) for t in left.values()), left

    play(story, 6, actions=RECREATE, **SIX)


@pytest.mark.parametrize("silent", [False, True], ids=["half-done", "never-heard-of-again"])
def test_what_was_done_and_did_not_help_is_paid_for(silent: bool) -> None:
    async def story(s: Stage) -> None:
        await on_one_host(s)
        if silent:
            never_heard_of_again(s)
        else:
            s.plan.rules.append(Rule(fault=Fault.HALF, call="submit:REBOOT"))
        s.world.hang(s.node_ids()[0])
        await s.clock.sleep(120)
        assert await recoveries(s) == 2
        assert all(round(t) == 18 for t in (await tokens(s)).values())

    play(story, actions=REBOOT, budgets=SIX["budgets"])
