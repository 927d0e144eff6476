"""Runs a driver's operation once, to its end: submit, poll, reconcile, each bounded.

What an earlier life of the engine submitted is read from the target by its operation id; only what
left no trace is submitted, and what may act twice is never repeated.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Final

import structlog

from yaffle.core.recovery.answer_preference import CUT_SHORT, more_telling
from yaffle.core.recovery.ladder import Result, Stage
from yaffle.engine.action_inputs.template_context import names_of
from yaffle.engine.runtime.driver_call import Failure, call_driver
from yaffle.engine.steps.objections import well_again
from yaffle.engine.steps.step import Refused, StepExecution, superseded
from yaffle.errors import InvalidSpec
from yaffle.model.machine_identity import unpinned
from yaffle.model.operations import (
    Hindrance,
    Operation,
    PoweredOff,
    Progress,
    ProgressState,
    Promise,
)
from yaffle.model.timing import POLL_MAX_S, RESEND_MAX_S
from yaffle.policy.templates import fill
from yaffle.store import catalog, journal

if TYPE_CHECKING:
    from sqlalchemy import Connection

log = structlog.get_logger()

DETAIL_MAX: Final = 4000
POLL_S: Final = 0.2

Call = Callable[[float], Awaitable[Progress]]


async def operate(
    step: StepExecution,
    kind: str,
    params: Mapping[str, object],
    *,
    off: PoweredOff | None = None,
    waived: frozenset[str] = frozenset(),
) -> Progress:
    """Run one operation of the profile driver to its end, given proved fences (`off`) and waivers."""
    profile = step.ctx.drivers.profiles.get(step.target.profile_type)
    if profile is None:
        return Progress.not_begun(missing(step))
    op = Operation(
        kind=kind,
        target=step.target,
        params=params,
        timeout_s=step.left_s(),
        off=off,
        waived=waived,
    )
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


def missing(step: StepExecution) -> str:
    """Return the answer for a profile type without an installed driver."""
    return f"profile type {step.target.profile_type} is not available in this engine"


async def workflow(step: StepExecution) -> Progress:
    """Run a workflow to its end, with its templates filled in."""
    rung, ident = step.rung, step.row.operation_id
    driver = step.ctx.drivers.workflows.get(rung.kind)
    if driver is None:
        return Progress.not_begun(f"no driver for {rung.kind} workflows is installed")
    names = names_of(step.target, step.action.incident_id or "") | {"operation.id": ident}
    try:
        params = fill(dict(rung.params), names)
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


async def _carry_out(
    step: StepExecution, *, submit: Call, poll: Call, repeatable: bool
) -> Progress:
    """Submit once and poll to the end; raise Refused when a user's action takes over meanwhile.

    `repeatable`: the driver acts once however often an operation id is submitted, so that a submit
    which got no answer and left no trace may be sent again.
    """
    now_s = step.ctx.clock.monotonic_s
    done = await _first(step, submit, poll, repeatable=repeatable)
    usual_s, answer_s, patience = POLL_S, 0.0, _Patience()
    whole_s, outstanding = step.call_s(), done.outstanding
    while done.state is ProgressState.RUNNING:
        if step.left_s() <= 0:
            done = _late(step, done)
            break
        await _ask_user(step)
        await step.pause(usual_s, answer_s)
        usual_s = min(usual_s * 1.5, POLL_MAX_S)
        cut_short = step.left_s() < CUT_SHORT * whole_s
        began_s = now_s()
        answer = await _call(step, poll)
        answer_s = now_s() - began_s
        if answer.untold:
            # That says nothing about the operation; its deadline bounds our patience.
            done = done if cut_short and not done.untold else more_telling(done, answer)
        elif answer.state is not ProgressState.ABSENT:
            done, patience = answer, _Patience()
        elif not repeatable:
            done = UNTRACED
        elif patience.over(now_s()):
            outstanding = True
            done = more_telling(done, await _resent(step, submit))
    return replace(done, outstanding=outstanding or done.outstanding)


@dataclass(slots=True)
class _Patience:
    """Back-off for resending a request that left no trace, until a trace is seen.

    A backend that refuses everything for minutes ("later, something else is being done to it") is
    not asked for the same with every poll.
    """

    until_s: float = -inf
    pause_s: float = POLL_S

    def over(self, now_s: float) -> bool:
        """Whether it may be sent now; if so, the next pause is longer."""
        if now_s < self.until_s:
            return False
        self.until_s, self.pause_s = now_s + self.pause_s, min(2 * self.pause_s, RESEND_MAX_S)
        return True


def _late(step: StepExecution, done: Progress) -> Progress:
    """Return the failure of an operation out of time, which may still take effect.

    Where nobody could be asked last, that stands beside it; `untold`, nobody ever could.
    """
    left = done.left_host or str(step.target.attributes.get("host") or "")
    late = f"out of time: {done.detail}"
    # A copy whose id is known is the node's, and is deleted with it.
    unseen = done.physical_id is None
    return replace(
        done, state=ProgressState.FAILED, detail=late, left_host=left, outstanding=unseen
    )


async def _ask_user(step: StepExecution) -> None:
    """Raise Refused where a user's action has taken over and may begin."""
    if _interruptible(step) and await superseded(step):
        raise Refused(Result.SUPERSEDED, "a user's action took over")


def _silent(answer: Progress) -> bool:
    """Whether the answer says nothing about an operation that may be going on."""
    unasked = answer.untold or answer.hindrance is Hindrance.UNASKED
    return answer.state is ProgressState.RUNNING and unasked


def _unanswered(why: str) -> Progress:
    """Return the answer for a driver call without usable result: still running, for all we know."""
    return Progress(
        state=ProgressState.RUNNING, detail=why, hindrance=Hindrance.UNASKED, untold=True
    )


UNTRACED: Final = Progress(
    state=ProgressState.FAILED,
    detail="the target bears no trace of the operation",
    outstanding=True,
)


def _interruptible(step: StepExecution) -> bool:
    """Whether a user's deletion may begin while the operation goes on.

    Not while a copy is being made: the deletion would find nothing, and the copy would come to be
    after it and run unseen until it is looked for.
    """
    match step.place.stage:
        case Stage.CREATE:
            return False
        case Stage.ACT:
            return step.rung.in_place
        case _:
            return True


async def _first(step: StepExecution, submit: Call, poll: Call, *, repeatable: bool) -> Progress:
    """Submit the operation, or reconcile what an earlier session had submitted."""
    if step.resumed:
        found = await _reconciled(step, poll)
        if found is not None:
            return found
        if step.row.phase == journal.SUBMITTED and not repeatable:
            # It may still be on its way: to send it again could act twice.
            return UNTRACED
        if step.row.phase == journal.SUBMITTED:
            return replace(await _resent(step, submit), outstanding=True)
    done = await _again(step, submit)
    ended = done.state is ProgressState.FAILED and done is not UNTRACED
    return replace(done, refused=ended and not done.untold and done.physical_id is None)


async def _resent(step: StepExecution, submit: Call) -> Progress:
    """Resubmit what left no trace; where that is refused and a copy may come about, wait for it.

    The look before the first time is an old one by now: what is well since is left as it is. An act
    that only mends may well have worked without a trace, and is verified; one that deletes has not.
    """
    if step.place.stage is not Stage.CREATE and (well := await well_again(step)):
        if step.place.stage is Stage.ACT:
            return Progress(state=ProgressState.DONE, detail=f"not sent again: {well}")
        return Progress(state=ProgressState.FAILED, detail=well, hindrance=Hindrance.OVER)
    try:
        return await _again(step, submit)
    except Refused as refused:
        if _interruptible(step):
            raise
        # The first request may still be on its way: a deletion that ran now would miss its copy.
        return Progress(
            state=ProgressState.RUNNING, detail=f"no trace of it, not sent again: {refused.why}"
        )


async def _again(step: StepExecution, submit: Call) -> Progress:
    """Submit, after asking in the very transaction that records it whether that is still allowed."""

    def work(conn: Connection) -> tuple[Result, str] | None:
        refusal = step.refusal(conn)
        if refusal is None:
            journal.submitted(conn, step.ticket, step.row, step.ctx.clock.now_us())
            _settle(conn, step)
        return refusal

    refusal = await step.session.write(work)
    if refusal is not None:
        raise Refused(*refusal)
    # Where no answer comes, whether it arrived is unknown: the target will tell.
    answer = await _call(step, submit)
    return UNTRACED if answer.state is ProgressState.ABSENT else answer


def _settle(conn: Connection, step: StepExecution) -> None:
    """Store the machine of a node that is bound to one, before its first copy can be there.

    Whoever takes this action over elsewhere then knows that it cannot see the copy.
    """
    home, profile = step.ctx.home, step.ctx.drivers.profiles.get(step.target.profile_type)
    bound = profile is not None and Promise.STAYS_AT_HOME in profile.promises
    if home is not None and bound and unpinned(step.target.attributes):
        attributes = {**step.target.attributes, **home.stamp()}
        catalog.set_node(conn, step.node.id, step.ctx.clock.now_us(), attributes=attributes)


async def _reconciled(step: StepExecution, poll: Call) -> Progress | None:
    """Return what the target says of a half-done operation; None when it bears no trace of it.

    It is asked once however late it is: what has succeeded is never called failed unasked.
    """
    while _silent(answer := await _call(step, poll)) and step.left_s() > 0:
        await _ask_user(step)
        await step.ctx.clock.sleep(1.0)
    return None if answer.state is ProgressState.ABSENT else answer


async def _call(step: StepExecution, call: Call) -> Progress:
    """Make one bounded driver call; one without usable answer counts as running."""
    call_s = step.call_s()
    await step.session.until_may_act(call_s + step.session.grace_s())
    answer = await call_driver(
        lambda: call(call_s),
        Progress,
        within_s=call_s + step.session.grace_s(),
        what=f"{step.target.profile_type} on {step.node.name}",
    )
    return _unanswered(answer.why) if isinstance(answer, Failure) else _storable(answer)


def _storable(answer: Progress) -> Progress:
    """Return the answer bounded to what a row can keep; one whose facts are no JSON is none."""
    try:
        facts = (
            None if answer.attributes is None else json.loads(json.dumps(dict(answer.attributes)))
        )
    except (TypeError, ValueError):
        log.exception("driver answered nonsense", what="attributes that are no JSON")
        return _unanswered("the driver answered with facts that are no JSON")
    physical_id, failed = answer.physical_id, answer.state is ProgressState.FAILED
    return replace(
        answer,
        detail=str(answer.detail).replace("\0", "")[:DETAIL_MAX],
        physical_id=None if physical_id is None else str(physical_id).replace("\0", "")[:255],
        left_host=str(answer.left_host).replace("\0", "")[:255],
        attributes=facts,
        untold=_silent(answer) or (failed and answer.hindrance is Hindrance.UNASKED),
    )
