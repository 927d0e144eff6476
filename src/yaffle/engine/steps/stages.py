"""The stages of the ladder: one function each, bounded in time, returning its result.

None of them writes to the database: the executor journals before and after. Each may be run again
by a successor that found its step half done; what was handed to a driver is then read from the
target (`poll` by operation id), never repeated blindly (design/failure#recovery).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog

from yaffle.core.health.verdict import Vote
from yaffle.core.planning.host_attribution import place_of
from yaffle.core.recovery.answer_preference import CUT_SHORT, since_then, tells
from yaffle.core.recovery.host_quarantine import MOVED
from yaffle.core.recovery.ladder import Result, Stage, loses_disk
from yaffle.core.recovery.objections import OBJECTION, Objection
from yaffle.engine.action_inputs.recover_requests import NOT_BEGUN, waited_for
from yaffle.engine.detection.checks import check_now
from yaffle.engine.runtime.driver_call import Failure, call_driver
from yaffle.engine.steps.disk_snapshot import booted, booting, keep
from yaffle.engine.steps.driver_operation import missing, operate, workflow
from yaffle.engine.steps.evidence import HOST_LOST, noted, off_of, waived_of
from yaffle.engine.steps.host_quarantine import bars
from yaffle.engine.steps.objections import (
    REFUSED,
    as_it_is,
    hindered,
    left_alone,
    refused_at_once,
    well_again,
)
from yaffle.engine.steps.preflight import preflight
from yaffle.engine.steps.reserved_host import destined
from yaffle.engine.steps.resource_rebind import adopted, knowing
from yaffle.engine.steps.step import (
    Outcome,
    Refused,
    StepExecution,
    ask_leave,
    cannot_see,
    superseded,
)
from yaffle.model.action import ActionKind
from yaffle.model.operations import (
    EMPTY,
    FenceResult,
    FenceVerdict,
    Hindrance,
    Progress,
    ProgressState,
    Promise,
    Proof,
)
from yaffle.model.policy import RungKind
from yaffle.model.timing import LOOK_PAUSE_S, LOOK_TRIES, fence_s, verify_pace_s
from yaffle.ports import SupportsFenceExclusion
from yaffle.store import journal
from yaffle.store.late_resources import OUTSTANDING

if TYPE_CHECKING:
    from yaffle.engine.action_inputs.policy_snapshot import PolicySnapshot
    from yaffle.engine.detection.checks import CheckReport
    from yaffle.model.policy import RecoveryAction
    from yaffle.ports import Fencer

log = structlog.get_logger()

EVIDENCE_MAX: Final = 65_536
FORBIDDING: Final = frozenset({Hindrance.BARRED, Hindrance.OVER})
"""Why an act must not be, by whatever means, and whoever waives the proof of it."""


def timeout_of(stage: Stage, rung: RecoveryAction, snapshot: PolicySnapshot) -> float:
    """Return how long a stage may take (s)."""
    evidence, kept = snapshot.recovery.evidence, snapshot.recovery.snapshot
    return {
        Stage.LOOK: 30.0,
        Stage.EVIDENCE: evidence.timeout_s if evidence else 30.0,
        Stage.SNAPSHOT: kept.timeout_s if kept else 30.0,
        Stage.FENCE: fence_s(len(snapshot.recovery.fencing)),
        Stage.DELETE: snapshot.recovery.node_delete_timeout_s,
        Stage.CREATE: rung.timeout_s,
        Stage.ACT: rung.timeout_s,
        Stage.VERIFY: rung.timeout_s,
    }[stage]


async def run(step: StepExecution) -> Outcome:
    """Run the stage that the step names; an act that was refused is a result like any other."""
    if step.place.stage in {Stage.LOOK, Stage.DELETE}:
        step = await adopted(step)
    followers = step.ctx.followers
    followers[step.target.profile_type] += 1
    try:
        outcome = await STAGES[step.place.stage](step)
    except Refused as refused:
        outcome = Outcome(result=refused.result, detail=refused.why)
    finally:
        followers[step.target.profile_type] -= 1
    return knowing(step, outcome)


# --- looking -----------------------------------------------------------------------------------


async def _look(step: StepExecution) -> Outcome:
    """Check the node again under the lock; a mark or a person's request outweighs a pass.

    Not a request that had to wait: it spoke of the node as it was.
    """
    late = waited_for(step.action) if step.snapshot.force else ""
    insisted = step.insisted
    detail = told = ""
    for _ in range(LOOK_TRIES):
        report = await check_now(step.ctx, step.target, step.snapshot.detection)
        detail = since_then(told, report.detail) if told and report.unasked else report.detail
        if insisted and not step.place.completed:
            why = "marked unhealthy" if step.node.mark_reason is not None else "requested"
            return await _sick(step, report, f"{why}; {detail}", insisted=True)
        match report.vote:
            case Vote.FAIL if not report.answered and await cannot_see(step):
                await step.ctx.clock.sleep(LOOK_PAUSE_S)
            case Vote.FAIL:
                found = await _sick(step, report, detail, insisted=insisted)
                if found.data.get(OBJECTION) != Objection.UNASKED.value:
                    return found
                detail = told = found.detail
                await step.ctx.clock.sleep(LOOK_PAUSE_S)
            case Vote.PASS if report.left is not Objection.NONE:
                return as_it_is(step, report)
            case Vote.PASS:
                unneeded = f"{NOT_BEGUN}: {late}; " if late and not step.place.acted else ""
                return Outcome(
                    result=Result.HEALTHY,
                    detail=unneeded + detail,
                    data={"backend_status": report.backend_status},
                )
            case Vote.UNKNOWN | Vote.PENDING if not step.node.physical_id:
                # That its creation failed is a fact, whatever cannot be asked of it for want of it.
                return Outcome(result=Result.SICK, detail=f"its creation failed; {detail}")
            case Vote.UNKNOWN | Vote.PENDING:
                await step.ctx.clock.sleep(LOOK_PAUSE_S)
    return Outcome(result=Result.UNCLEAR, detail=f"could not look again: {detail}")


async def _sick(
    step: StepExecution, report: CheckReport, detail: str, *, insisted: bool
) -> Outcome:
    """Return the outcome of LOOK for an unhealthy node, unless somebody wants it left as it is."""
    if left := await left_alone(step, report, detail, insisted=insisted):
        return left
    if insisted:
        return Outcome(result=Result.SICK, detail=detail)
    data = {
        "backend_status": report.backend_status,
        "gone": report.gone,
        HOST_LOST: report.host_lost,
    }
    return Outcome(result=Result.SICK, detail=detail, data=data)


async def _verify(step: StepExecution) -> Outcome:
    """Check until the node has passed `rise` times, is proved gone, or the rung's time is over."""
    detection = step.snapshot.detection
    pace_s = verify_pace_s(detection.interval_s)
    passes = gone = looks = unseen = 0
    detail, told, answered = "not looked at", "", False
    # The act may have used up the rung's time: without these looks its success would count for nothing.
    # Nor is one look that nothing came of the last word.
    while step.left_s() > 0 or looks < detection.rise or 0 < unseen < LOOK_TRIES:
        if await superseded(step):
            return Outcome(result=Result.SUPERSEDED, detail="a user's action took over")
        report = await check_now(step.ctx, step.target, detection)
        looks += 1
        unseen = unseen + 1 if report.unasked else 0
        told = told if unseen else report.detail
        detail = since_then(told, report.detail) if told and unseen else report.detail
        answered = report.answered
        # What is down because somebody wants it so, or because of our own act, has not recovered.
        runs = report.vote is Vote.PASS and report.left is Objection.NONE
        passes = passes + 1 if runs else 0
        gone = gone + 1 if report.gone else 0
        if passes >= detection.rise:
            return Outcome(
                result=Result.PASSED,
                detail=detail,
                data={"looks": looks, "rise": passes, "backend_status": report.backend_status},
            )
        if gone > max(2, detection.fall):
            return Outcome(
                result=Result.FAILED, detail=f"it ended again: {detail}", data={"looks": looks}
            )
        await step.pause(pace_s, report.answer_s)
    if unseen or (not answered and await cannot_see(step)):
        why = f"could not see whether it helped: {detail}"
        data = {"looks": looks, OBJECTION: Objection.UNASKED.value}
        return Outcome(result=Result.UNCLEAR, detail=why, data=data)
    return Outcome(
        result=Result.FAILED,
        detail=f"not healthy within {step.rung.timeout_s:g} s: {detail}",
        data={"looks": looks},
    )


async def _evidence(step: StepExecution) -> Outcome:
    """Capture evidence from the failed node, within a time box."""
    profile = step.ctx.drivers.profiles.get(step.target.profile_type)
    if profile is None:
        return Outcome(result=Result.FAILED, detail=missing(step))
    budget_s = max(0.1, step.left_s())
    text = await call_driver(
        lambda: profile.capture(step.target, deadline_s=budget_s),
        str,
        within_s=budget_s,
        what="the capture",
    )
    if isinstance(text, Failure):
        return Outcome(result=Result.FAILED, detail=text.why)
    return Outcome(
        result=Result.DONE,
        detail=f"{len(text)} characters captured",
        evidence=text[-EVIDENCE_MAX:].replace("\0", ""),
    )


# --- making sure it is dead ----------------------------------------------------------------------


async def _fence(step: StepExecution) -> Outcome:
    """Try the policy's fencers in their order until one proves it; without a proof the rung is over.

    What the backend cannot prove, because it has lost the host, the power switch may.
    """
    if _recreates(step) and (kept := await _remade(step)):
        return kept
    fencers, said, hindered_by = _fencers(step)
    begun = False
    if not fencers:
        names = ", ".join(step.snapshot.recovery.fencing) or "none"
        said.insert(0, f"no fencer for this node (the policy names: {names})")
    for place, (kind, fencer) in enumerate(fencers):
        until_s = step.left_s() * (len(fencers) - place - 1) / (len(fencers) - place)
        done = await _fenced(step, fencer, until_s)
        if isinstance(done, Outcome):
            return done
        said.append(f"{kind}: {done.why}" if len(fencers) > 1 or said else done.why)
        begun = begun or done.begun
        # That one has said no is no word of another, which could not be asked and may prove it.
        hindered_by = done.hindrance or hindered_by
        if done.hindrance in FORBIDDING:
            break
    ended = _unproved(step, "; ".join(said), hindered_by)
    return ended if begun else replace(ended, data={**ended.data, REFUSED: True})


class _Doubt(NamedTuple):
    """Why a fencer did not prove the fence."""

    why: str
    hindrance: Hindrance
    begun: bool
    """Whether it may have ended the copy all the same."""


async def _fenced(step: StepExecution, fencer: Fencer, until_s: float) -> Outcome | _Doubt:
    """Fence until proved or refused, or until `until_s` of the step are left; return proof or reason."""
    detail, told, hindrance = "not tried", (False, 0.0), Hindrance.NONE
    began_s, begun = step.left_s(), False
    while step.left_s() > until_s:
        await ask_leave(step)
        call_s = step.call_s()
        await step.session.until_may_act(call_s + step.session.grace_s())
        done = await call_driver(
            lambda within_s=call_s: fencer.fence(  # type: ignore[misc]
                step.target, operation_id=step.row.operation_id, deadline_s=within_s
            ),
            FenceResult,
            within_s=call_s + step.session.grace_s(),
            what="the fencer",
        )
        said = done.why if isinstance(done, Failure) else str(done.detail)
        so_far = Hindrance.UNASKED if isinstance(done, Failure) else done.hindrance
        if tells(now := (so_far is not Hindrance.UNASKED, call_s), told):
            detail, told = said, now
        if so_far is not Hindrance.UNASKED or call_s >= CUT_SHORT * told[1]:
            hindrance = so_far
        if isinstance(done, FenceResult):
            if done.verdict is FenceVerdict.CONFIRMED and isinstance(done.proof, Proof):
                data = noted(fencer, done)
                return Outcome(result=Result.PROVED, detail=said, data=data, proof=done.proof)
            if done.verdict is FenceVerdict.REFUSED:
                return _Doubt(f"refused: {said}", hindrance, begun)
        begun = True
        await step.ctx.clock.sleep(1.0)
        if well := await well_again(step):
            return _Doubt(f"{well}; before that: {detail}", Hindrance.OVER, begun)
    return _Doubt(f"not proved within {began_s - until_s:.0f} s: {detail}", hindrance, begun)


def _fencers(step: StepExecution) -> tuple[list[tuple[str, Fencer]], list[str], Hindrance]:
    """Return the fencers of the policy that know such a node, in its order, and why not the others.

    One that could not say whether it does is no reason for anything.
    """
    found, said, hindrance = [], [], Hindrance.NONE
    for kind in step.snapshot.recovery.fencing:
        fencer = step.ctx.drivers.fencers.get(kind)
        try:
            if fencer is None or not fencer.supports(step.target):
                continue
            other: object = fencer
            if isinstance(other, SupportsFenceExclusion) and (why := other.defeats(step.rung.name)):
                said.append(f"{kind}: not used, {why}")
            else:
                found.append((str(kind), fencer))
        except Exception as error:
            log.exception("driver failed", what=f"the {kind} fencer")
            said.append(f"{kind}: failed: {type(error).__name__}")
            hindrance = Hindrance.UNASKED
    return found, said, hindrance


def _unproved(step: StepExecution, why: str, hindrance: Hindrance = Hindrance.NONE) -> Outcome:
    """Return the outcome without proof: the ladder goes on by `node_force_recreate` alone, recorded.

    It is about what cannot be proved, and not about what somebody has locked, or what is well again.
    """
    waived = step.snapshot.recovery.node_force_recreate and hindrance not in FORBIDDING
    if not waived:
        return hindered(step, why, hindrance) or Outcome(result=Result.UNPROVED, detail=why)
    return Outcome(
        result=Result.WAIVED,
        detail=f"proof waived by policy (node_force_recreate): {why}",
        debris=True,
        proof=Proof(
            method="waived",
            evidence=f"node_force_recreate: true; {why}",
            at_us=step.ctx.clock.now_us(),
            by="policy",
        ),
    )


async def _delete(step: StepExecution) -> Outcome:
    """Delete the old copy until confirmed; after a proved fence it may be left as an orphan."""
    stray = step.target.physical_id != step.node.physical_id
    if stray and step.resumed and step.row.phase == journal.SUBMITTED:
        # That deletion named the copy that was known then; its end says nothing of this one.
        why = f"not deleted: copy {step.target.physical_id} came about late, and is not what was named"
        return Outcome(result=Result.UNPROVED, detail=why)
    if _recreates(step) and not step.place.proved and (kept := await _remade(step)):
        return kept
    profile = step.ctx.drivers.profiles.get(step.target.profile_type)
    confirms = profile is not None and Promise.CONFIRMS_DELETE in profile.promises
    done = await operate(step, "DELETE", EMPTY, off=await off_of(step))
    if done.state is ProgressState.DONE and confirms:
        proof = Proof(
            method="delete-confirmed",
            evidence=done.detail or "the backend confirms that it is gone",
            at_us=step.ctx.clock.now_us(),
            by=step.target.profile_type,
        )
        return Outcome(result=Result.PROVED, detail=done.detail, proof=proof)
    if done.state is ProgressState.DONE and step.action.action == ActionKind.NODE_DELETE:
        # Nothing is started afterwards, so the backend's word is enough.
        return Outcome(result=Result.PROVED, detail=done.detail)
    why = f"deletion not confirmed: {done.detail}"
    if step.place.proved and not stray and done.hindrance is not Hindrance.BARRED:
        left = Outcome(result=Result.LEFT_BEHIND, detail=why, debris=True)
        return refused_at_once(left, done)
    # What was fenced before is not a copy that is only now known.
    return refused_at_once(_unproved(step, why, done.hindrance), done)


def _recreates(step: StepExecution) -> bool:
    """Whether the copy is replaced by another one, not deleted for good."""
    return step.rung.kind is RungKind.BUILTIN and step.rung.name == "RECREATE"


async def _remade(step: StepExecution) -> Outcome | None:
    """Return the outcome where the pre-flight check says that no new copy could be made."""
    return await preflight(step, "CREATE", booting(step, EMPTY), Result.UNPROVED)


# --- acting --------------------------------------------------------------------------------------


async def _create(step: StepExecution) -> Outcome:
    off, waived = await off_of(step), await waived_of(step)
    done = await operate(step, "CREATE", booting(step, EMPTY), off=off, waived=waived)
    ended = booted(step, _acted(step, done, "created"))
    # Its copy may come about when nobody knows of the node any more.
    return replace(ended, data={**ended.data, OUTSTANDING: True}) if done.outstanding else ended


async def _act(step: StepExecution) -> Outcome:
    """Run an in-place operation of the profile, or a workflow."""
    named = await destined(step)
    if isinstance(named, Outcome):
        return named
    step, rung = named, named.rung
    if why := await _barred(step):
        return Outcome(result=Result.FAILED, detail=why)
    if loses_disk(rung):
        kept = await preflight(step, rung.name, booting(step, rung.params), Result.FAILED)
        if kept is not None:
            return kept
    if rung.kind is RungKind.BUILTIN:
        done = await operate(step, rung.name, booting(step, rung.params))
        return booted(step, _acted(step, done, rung.name.lower()))
    return _acted(step, await workflow(step), rung.name)


async def _barred(step: StepExecution) -> str:
    """Say why nothing may be moved to the host that is named; empty where one may be, or none is."""
    host = step.rung.params.get("host")
    if step.resumed or step.rung.name != MOVED or not isinstance(host, str):
        return ""
    place = place_of(host, step.target.attributes)
    why = await step.session.write(lambda conn: bars(conn, place))
    return f"{step.rung.name}: {why}: nothing was moved there" if why else ""


def _acted(step: StepExecution, done: Progress, what: str) -> Outcome:
    match done.state:
        case ProgressState.DONE:
            return Outcome(
                result=Result.DONE,
                detail=done.detail or what,
                physical_id=done.physical_id,
                attributes=done.attributes,
                restarted=True,
                left_host=done.left_host,
            )
        case ProgressState.FAILED | ProgressState.RUNNING | ProgressState.ABSENT:
            ended = Outcome(result=Result.FAILED, detail=done.detail)
            if (unclear := hindered(step, done.detail, done.hindrance)) is not None:
                ended = replace(ended, data=unclear.data) if _had_its_time(step, done) else unclear
            # A copy that was half made is ours to remove: forgotten, it would bar every later one.
            ended = replace(ended, physical_id=done.physical_id, left_host=done.left_host)
            return refused_at_once(ended, done)


def _had_its_time(step: StepExecution, done: Progress) -> bool:
    """Whether the backend accepted the operation and its time is over without effect.

    Whether it was still answered at the end is no matter then: the next rung looks first, and what
    it needs is asked anew. What was never taken up is no reason for a stronger act.
    """
    in_place = step.place.stage is Stage.ACT and step.rung.in_place
    unasked = done.hindrance is Hindrance.UNASKED
    return in_place and unasked and not done.untold and step.left_s() <= 0


STAGES: Final[Mapping[Stage, Callable[[StepExecution], Awaitable[Outcome]]]] = {
    Stage.LOOK: _look,
    Stage.EVIDENCE: _evidence,
    Stage.SNAPSHOT: keep,
    Stage.FENCE: _fence,
    Stage.DELETE: _delete,
    Stage.CREATE: _create,
    Stage.ACT: _act,
    Stage.VERIFY: _verify,
}
