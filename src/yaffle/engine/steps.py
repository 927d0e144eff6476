"""One function per stage of the ladder: each does its one thing in bounded time and says the result.

None of them writes to the database: the executor journals before and after. Each may be run again
by a successor that found its step half done; what was handed to a driver is then read from the
target (`poll` by operation id), never repeated blindly (DESIGN §1.5).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog

from yaffle.core.ladder import Next, Result, Stage
from yaffle.core.verdict import Vote
from yaffle.engine.adoption import adopted, knowing
from yaffle.engine.look import look
from yaffle.errors import InvalidSpec
from yaffle.model.operations import (
    EMPTY,
    FenceVerdict,
    Operation,
    Progress,
    ProgressState,
    Promise,
    Proof,
)
from yaffle.model.policy import ActionKind
from yaffle.policy.templates import fill
from yaffle.store import journal

if TYPE_CHECKING:
    from yaffle.engine.kit import Kit
    from yaffle.engine.session import Session
    from yaffle.engine.snapshot import Snapshot
    from yaffle.model.operations import Target
    from yaffle.model.policy import RecoveryAction
    from yaffle.store.actions import Ticket
    from yaffle.store.records import ActionRow, NodeRow, StepRow

log = structlog.get_logger()

CALL_S: Final = 4.0
"""Longest single call to a driver; well below a lease, so that no call outlives the right to act."""
POLL_S: Final = 0.2
POLL_MAX_S: Final = 2.0
FENCE_S: Final = 30.0
LOOK_TRIES: Final = 3
EVIDENCE_MAX: Final = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Everything a stage needs to know."""

    kit: Kit
    session: Session
    action: ActionRow
    ticket: Ticket
    node: NodeRow
    target: Target
    snapshot: Snapshot
    rung: RecoveryAction
    place: Next
    row: StepRow
    resumed: bool
    """Whether another life of an engine began this step."""
    superseded: Callable[[], Awaitable[bool]]

    def left_s(self) -> float:
        """Seconds until this step's deadline."""
        return (self.row.deadline_us - self.kit.clock.now_us()) / 1e6

    def call_s(self) -> float:
        """How long one call to a driver may take now; no call outlives the right to act."""
        longest = min(CALL_S, self.kit.settings.lease * 0.4)
        return max(0.1, min(longest, self.left_s()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a step came to, and what it changed."""

    result: Result
    detail: str
    data: Mapping[str, object] = field(default_factory=lambda: EMPTY)
    physical_id: str | None = None
    attributes: Mapping[str, object] | None = None
    restarted: bool = False
    """The node began a new life: grace starts again."""
    proof: Proof | None = None
    evidence: str | None = None
    debris: bool = False
    """Remains are left that somebody has to go on deleting."""


def timeout_of(stage: Stage, rung: RecoveryAction, snapshot: Snapshot) -> float:
    """Return how long a stage may take (s)."""
    evidence = snapshot.recovery.evidence
    return {
        Stage.LOOK: 30.0,
        Stage.EVIDENCE: evidence.timeout_s if evidence else 30.0,
        Stage.FENCE: FENCE_S,
        Stage.DELETE: snapshot.recovery.node_delete_timeout_s,
        Stage.CREATE: rung.timeout_s,
        Stage.ACT: rung.timeout_s,
        Stage.VERIFY: rung.timeout_s,
    }[stage]


async def run(step: Step) -> Outcome:
    """Run the stage that the step names."""
    if step.place.stage in {Stage.LOOK, Stage.DELETE}:
        step = await adopted(step)
    return knowing(step, await STAGES[step.place.stage](step))


# --- looking -----------------------------------------------------------------------------------


async def _look(step: Step) -> Outcome:
    """Look again under the lock; a mark or a person's request outweighs a healthy look."""
    insisted = step.node.mark_reason is not None or step.snapshot.force
    detail = ""
    for _ in range(LOOK_TRIES):
        sight = await look(step.kit, step.target, step.snapshot.detection)
        detail = sight.detail
        if insisted and not step.place.acted:
            why = "marked unhealthy" if step.node.mark_reason is not None else "requested"
            return Outcome(result=Result.SICK, detail=f"{why}; {detail}")
        match sight.vote:
            case Vote.FAIL:
                return Outcome(result=Result.SICK, detail=detail)
            case Vote.PASS:
                return Outcome(result=Result.HEALTHY, detail=detail)
            case Vote.UNKNOWN | Vote.PENDING:
                await step.kit.clock.sleep(1.0)
    return Outcome(result=Result.UNCLEAR, detail=f"could not look again: {detail}")


async def _verify(step: Step) -> Outcome:
    """Look until the node has risen, is proved gone again, or the rung's time is over."""
    detection = step.snapshot.detection
    pace_s = min(1.0, detection.interval_s / 2)
    passes = gone = looks = 0
    detail = "not looked at"
    while step.left_s() > 0:
        if await step.superseded():
            return Outcome(result=Result.SUPERSEDED, detail="a user's action took over")
        sight = await look(step.kit, step.target, detection)
        looks += 1
        detail = sight.detail
        passes = passes + 1 if sight.vote is Vote.PASS else 0
        gone = gone + 1 if sight.gone else 0
        if passes >= detection.rise:
            return Outcome(
                result=Result.PASSED, detail=detail, data={"looks": looks, "rise": passes}
            )
        if gone > max(2, detection.fall):
            return Outcome(
                result=Result.FAILED, detail=f"it ended again: {detail}", data={"looks": looks}
            )
        await step.kit.clock.sleep(pace_s)
    return Outcome(
        result=Result.FAILED,
        detail=f"not healthy within {step.rung.timeout_s:g} s: {detail}",
        data={"looks": looks},
    )


async def _evidence(step: Step) -> Outcome:
    """Capture what the failed node can still tell; its time box protects the recovery."""
    profile = step.kit.drivers.profiles.get(step.target.profile_type)
    if profile is None:
        return Outcome(result=Result.FAILED, detail=_missing(step))
    budget_s = max(0.1, step.left_s())
    try:
        async with asyncio.timeout(budget_s):
            text = await profile.capture(step.target, deadline_s=budget_s)
    except TimeoutError:
        return Outcome(result=Result.FAILED, detail=f"not captured within {budget_s:.1f} s")
    except Exception as error:
        log.exception("capture failed", node=step.node.name)
        return Outcome(result=Result.FAILED, detail=f"{type(error).__name__}: {error}")
    return Outcome(
        result=Result.DONE,
        detail=f"{len(text)} characters captured",
        evidence=text[-EVIDENCE_MAX:],
    )


# --- making sure it is dead ----------------------------------------------------------------------


async def _fence(step: Step) -> Outcome:
    """Fence until it is proved, refused or out of time; without a proof the rung is over."""
    wanted = step.snapshot.recovery.fencing
    fencer = next(
        (
            f
            for kind in wanted
            if (f := step.kit.drivers.fencers.get(kind)) is not None and f.supports(step.target)
        ),
        None,
    )
    if fencer is None:
        names = ", ".join(wanted) or "none"
        return _unproved(step, f"no fencer for this node (the policy names: {names})")
    detail = "not tried"
    while step.left_s() > 0:
        if await step.superseded():
            return Outcome(result=Result.SUPERSEDED, detail="a user's action took over")
        call_s = step.call_s()
        await step.session.until_may_act(call_s)
        try:
            async with asyncio.timeout(call_s + 0.5):
                done = await fencer.fence(
                    step.target, operation_id=step.row.operation_id, deadline_s=call_s
                )
        except TimeoutError:
            detail = f"the fencer did not answer within {call_s:g} s"
            continue
        except Exception as error:
            log.exception("fencer failed", node=step.node.name)
            detail = f"{type(error).__name__}: {error}"
            await step.kit.clock.sleep(1.0)
            continue
        detail = done.detail
        if done.verdict is FenceVerdict.CONFIRMED and done.proof is not None:
            return Outcome(result=Result.PROVED, detail=detail, proof=done.proof)
        if done.verdict is FenceVerdict.REFUSED:
            return _unproved(step, f"refused: {detail}")
        await step.kit.clock.sleep(1.0)
    return _unproved(step, f"not proved within {FENCE_S:g} s: {detail}")


def _unproved(step: Step, why: str) -> Outcome:
    """No proof: only the operator's written consent goes on from here, and it is recorded."""
    if not step.snapshot.recovery.node_force_recreate:
        return Outcome(result=Result.UNPROVED, detail=why)
    return Outcome(
        result=Result.WAIVED,
        detail=f"proof waived by policy (node_force_recreate): {why}",
        debris=True,
        proof=Proof(
            method="waived",
            evidence=f"node_force_recreate: true; {why}",
            at_us=step.kit.clock.now_us(),
            by="policy",
        ),
    )


async def _delete(step: Step) -> Outcome:
    """Delete the old copy and have it confirmed; a fence proved before makes remains harmless."""
    profile = step.kit.drivers.profiles.get(step.target.profile_type)
    confirms = profile is not None and Promise.CONFIRMS_DELETE in profile.promises
    done = await _operate(step, "DELETE", EMPTY)
    if done.state is ProgressState.DONE and confirms:
        proof = Proof(
            method="delete-confirmed",
            evidence=done.detail or "the backend confirms that it is gone",
            at_us=step.kit.clock.now_us(),
            by=step.target.profile_type,
        )
        return Outcome(result=Result.PROVED, detail=done.detail, proof=proof)
    if done.state is ProgressState.ABSENT:
        return Outcome(result=Result.SUPERSEDED, detail=done.detail)
    why = f"deletion not confirmed: {done.detail}"
    if step.place.proved:
        return Outcome(result=Result.LEFT_BEHIND, detail=why, debris=True)
    return _unproved(step, why)


# --- acting --------------------------------------------------------------------------------------


async def _create(step: Step) -> Outcome:
    done = await _operate(step, "CREATE", EMPTY)
    return _acted(done, "created")


async def _act(step: Step) -> Outcome:
    """An in-place operation of the profile, or a workflow."""
    rung = step.rung
    if rung.kind is ActionKind.BUILTIN:
        return _acted(await _operate(step, rung.name, rung.params), rung.name.lower())
    return _acted(await _workflow(step), rung.name)


def _acted(done: Progress, what: str) -> Outcome:
    match done.state:
        case ProgressState.DONE:
            return Outcome(
                result=Result.DONE,
                detail=done.detail or what,
                physical_id=done.physical_id,
                attributes=done.attributes,
                restarted=True,
            )
        case ProgressState.ABSENT:
            return Outcome(result=Result.SUPERSEDED, detail=done.detail)
        case ProgressState.FAILED | ProgressState.RUNNING:
            # A copy that was half made is ours to remove: forgotten, it would bar every later one.
            return Outcome(result=Result.FAILED, detail=done.detail, physical_id=done.physical_id)


Call = Callable[[float], Awaitable[Progress]]


async def _operate(step: Step, kind: str, params: Mapping[str, object]) -> Progress:
    """Carry out one operation of the profile to its end."""
    profile = step.kit.drivers.profiles.get(step.target.profile_type)
    if profile is None:
        return Progress(state=ProgressState.FAILED, detail=_missing(step))
    op = Operation(kind=kind, target=step.target, params=params, timeout_s=step.left_s())
    ident = step.row.operation_id
    if kind not in profile.operations:
        return Progress(
            state=ProgressState.FAILED,
            detail=f"{step.target.profile_type} has no operation {kind}",
        )
    return await _carry_out(
        step,
        submit=lambda s: profile.submit(op, operation_id=ident, deadline_s=s),
        poll=lambda s: profile.poll(op, operation_id=ident, deadline_s=s),
        repeatable=Promise.DEDUPLICATES in profile.promises,
    )


def _missing(step: Step) -> str:
    return f"profile type {step.target.profile_type} is not available in this engine"


async def _workflow(step: Step) -> Progress:
    rung, ident = step.rung, step.row.operation_id
    driver = step.kit.drivers.workflows.get(rung.kind)
    if driver is None:
        return Progress(
            state=ProgressState.FAILED, detail=f"no driver for {rung.kind} workflows is installed"
        )
    try:
        params = fill(dict(rung.params), _names(step))
    except InvalidSpec as error:
        return Progress(state=ProgressState.FAILED, detail=str(error))
    assert isinstance(params, dict)  # noqa: S101 - filling keeps the shape
    timeout_s = step.left_s()
    return await _carry_out(
        step,
        submit=lambda s: driver.submit(
            rung.name, params, step.target, operation_id=ident, timeout_s=timeout_s, deadline_s=s
        ),
        poll=lambda s: driver.poll(rung.name, step.target, operation_id=ident, deadline_s=s),
        repeatable=Promise.DEDUPLICATES in driver.promises,
    )


def _names(step: Step) -> dict[str, object]:
    """Return the values that templates of the policy may name."""
    target = step.target
    return {
        "node.id": target.node_id,
        "node.name": target.name,
        "node.physical_id": target.physical_id,
        "node.physicalid": target.physical_id,
        "node.index": target.index,
        "cluster.id": target.cluster_id or "",
        "cluster.name": target.cluster_name,
        "incident.id": step.action.incident_id or "",
        "operation.id": step.row.operation_id,
        **{f"node.attributes.{k}": v for k, v in target.attributes.items()},
    }


async def _carry_out(step: Step, *, submit: Call, poll: Call, repeatable: bool) -> Progress:
    """Submit once and poll to the end; ABSENT means that a user's action took over.

    `repeatable`: the driver acts once however often an operation id is submitted, so that a submit
    which got no answer and left no trace may be sent again.
    """
    done = await _first(step, submit, poll)
    pause_s = POLL_S
    while done.state is ProgressState.RUNNING:
        if step.left_s() <= 0:
            return Progress(state=ProgressState.FAILED, detail=f"out of time: {done.detail}")
        if await step.superseded():
            return Progress(state=ProgressState.ABSENT, detail="a user's action took over")
        await step.kit.clock.sleep(pause_s)
        pause_s = min(pause_s * 1.5, POLL_MAX_S)
        answer = await _call(step, poll)
        # Polls that fail say nothing about the operation; its deadline bounds our patience.
        done = answer if answer is not None else done
        if done.state is ProgressState.ABSENT and repeatable:
            again = await _call(step, submit)
            done = again or Progress(state=ProgressState.RUNNING, detail="submitted again")
        elif done.state is ProgressState.ABSENT:
            done = Progress(
                state=ProgressState.FAILED, detail="the target bears no trace of the operation"
            )
    return done


async def _first(step: Step, submit: Call, poll: Call) -> Progress:
    """Hand the operation over, or find out what an earlier life of the engine had done of it."""
    if step.resumed:
        found = await _reconciled(step, poll)
        if found is not None:
            return found
    await step.kit.store.write(
        lambda conn: journal.submitted(conn, step.ticket, step.row, step.kit.clock.now_us())
    )
    answer = await _call(step, submit)
    if answer is None:
        # Whether it arrived is unknown: the target will tell.
        return Progress(state=ProgressState.RUNNING, detail="submitted, no answer yet")
    return answer


async def _reconciled(step: Step, poll: Call) -> Progress | None:
    """Return what the target says of a half-done operation; None when it bears no trace of it."""
    while step.left_s() > 0:
        answer = await _call(step, poll)
        if answer is None:
            await step.kit.clock.sleep(1.0)
            continue
        return None if answer.state is ProgressState.ABSENT else answer
    return Progress(state=ProgressState.FAILED, detail="the target could not be asked in time")


async def _call(step: Step, call: Call) -> Progress | None:
    """Make one bounded call; None when it gave no answer."""
    call_s = step.call_s()
    await step.session.until_may_act(call_s)
    try:
        async with asyncio.timeout(call_s + 0.5):
            return await call(call_s)
    except TimeoutError:
        return None
    except Exception as error:
        log.exception("driver call failed", node=step.node.name, error=str(error))
        return None


STAGES: Final[Mapping[Stage, Callable[[Step], Awaitable[Outcome]]]] = {
    Stage.LOOK: _look,
    Stage.EVIDENCE: _evidence,
    Stage.FENCE: _fence,
    Stage.DELETE: _delete,
    Stage.CREATE: _create,
    Stage.ACT: _act,
    Stage.VERIFY: _verify,
}
