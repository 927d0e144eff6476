"""Handing an operation to a driver, once, and following it to its end: bounded and reconcilable.

What an earlier life of the engine submitted is read from the target by its operation id; only what
left no trace is submitted, and what may act twice is never repeated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import structlog

from yaffle.engine.session import LeaseLost
from yaffle.engine.step import Step
from yaffle.errors import InvalidSpec, StoreUnavailable
from yaffle.model.bounds import CALL_GRACE_S, POLL_MAX_S
from yaffle.model.operations import Operation, Progress, ProgressState, Promise
from yaffle.policy.templates import fill
from yaffle.store import journal

log = structlog.get_logger()

POLL_S: Final = 0.2

Call = Callable[[float], Awaitable[Progress]]


async def operate(step: Step, kind: str, params: Mapping[str, object]) -> Progress:
    """Carry out one operation of the profile to its end."""
    profile = step.kit.drivers.profiles.get(step.target.profile_type)
    if profile is None:
        return Progress(state=ProgressState.FAILED, detail=missing(step))
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


def missing(step: Step) -> str:
    return f"profile type {step.target.profile_type} is not available in this engine"


async def workflow(step: Step) -> Progress:
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
    await _written_down(step)
    answer = await _call(step, submit)
    if answer is None:
        # Whether it arrived is unknown: the target will tell.
        return Progress(state=ProgressState.RUNNING, detail="submitted, no answer yet")
    return answer


async def _written_down(step: Step) -> None:
    """Record that the operation is being handed over; the lease ends the patience with a database."""
    while True:
        try:
            await step.kit.store.write(
                lambda conn: journal.submitted(conn, step.ticket, step.row, step.kit.clock.now_us())
            )
        except StoreUnavailable as error:
            log.warning("cannot write the journal", error=str(error))
            if not step.session.may_act():
                raise LeaseLost("the lease ran out while the database was away") from error
            await step.kit.clock.sleep(1.0)
        else:
            return


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
        async with asyncio.timeout(call_s + CALL_GRACE_S):
            return await call(call_s)
    except TimeoutError:
        return None
    except Exception as error:
        log.exception("driver call failed", node=step.node.name, error=str(error))
        return None
