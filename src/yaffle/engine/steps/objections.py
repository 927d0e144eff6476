"""Asks before every rung whether somebody wants the node left as it is.

A policy that watches a URL alone sees that nothing answers, and not that a user has switched the
server off. So whose backend keeps a record of requests is read once more, and its record is asked,
in the look before a rung. `core/recovery/objections.py` says what may be done after which answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import structlog

from yaffle.core.health.verdict import Vote
from yaffle.core.recovery.ladder import Result
from yaffle.core.recovery.objections import (
    BY_HINDRANCE,
    MAY_ACT,
    OBJECTION,
    Objection,
    harm_of,
    may_be_wished,
    of_cause,
    of_reading,
)
from yaffle.engine.detection.checks import check_now
from yaffle.engine.runtime.driver_call import Failure, call_driver
from yaffle.engine.steps.step import Outcome
from yaffle.model.action import ActionKind
from yaffle.model.operations import Cause, Hindrance, Reading
from yaffle.ports import SupportsCauseLookup

if TYPE_CHECKING:
    from yaffle.engine.detection.checks import CheckReport
    from yaffle.engine.steps.step import StepExecution
    from yaffle.model.operations import Progress
    from yaffle.ports import Profile

log = structlog.get_logger()

REFUSED: Final = "refused"
"""In the journal of a step whose very first request was refused: nothing was begun."""


async def left_alone(
    step: StepExecution, report: CheckReport, detail: str, *, insisted: bool
) -> Outcome | None:
    """Return the look's end where the node is to be left alone by this rung; None: it may act.

    `insisted`: a person asked for the recovery, or marked the node, and knows how it is; what is
    locked is left alone all the same.
    """
    found, why = await _objection(step, report, insisted=insisted)
    if MAY_ACT[found, harm_of(step.rung)]:
        return None
    if found is Objection.UNTOLD:
        why = f"{step.rung.name} is withheld, for somebody may have asked for that state: {why}"
    log.info("left alone", node=step.node.name, rung=step.rung.name, reason=why)
    data = {OBJECTION: found.value}
    return Outcome(result=Result.UNCLEAR, detail=f"left alone: {why}; {detail}", data=data)


def as_it_is(step: StepExecution, report: CheckReport) -> Outcome:
    """Return the end of a look at a node that does not run because somebody wants it so.

    A recovery leaves it; for a check it is not active, whatever the reason.
    """
    why = f"left alone: {report.detail}"
    data = {OBJECTION: report.left.value, "backend_status": report.backend_status}
    if step.action.action == ActionKind.NODE_CHECK:
        return Outcome(result=Result.SICK, detail=why, data=data)
    log.info("left alone", node=step.node.name, rung=step.rung.name, reason=report.detail)
    return Outcome(result=Result.UNCLEAR, detail=why, data=data)


async def well_again(step: StepExecution) -> str:
    """Say how the node is seen to be well, before an act upon an old look is repeated; empty if not.

    Nothing was proved of the copy, and nobody insists on the act. That it cannot be seen is no answer
    here: that it was unhealthy was seen before the first attempt.
    """
    recovers = step.action.action == ActionKind.NODE_RECOVER and not step.place.proved
    if not recovers or (step.insisted and not step.place.completed):
        return ""
    report = await check_now(step.ctx, step.target, step.snapshot.detection)
    how = "well by now" if report.left is Objection.NONE else "to be left alone by now"
    return f"it is {how}: {report.detail}" if report.vote is Vote.PASS else ""


def hindered(step: StepExecution, why: str, hindrance: Hindrance) -> Outcome | None:
    """Return the end of a recovery's step that says nothing of whether it helps; None: it does."""
    if hindrance is Hindrance.NONE or step.action.action != ActionKind.NODE_RECOVER:
        return None
    data = {OBJECTION: BY_HINDRANCE[hindrance].value}
    return Outcome(result=Result.UNCLEAR, detail=why, data=data)


def refused_at_once(outcome: Outcome, done: Progress) -> Outcome:
    """Return the outcome with that nothing was begun, where the first request was refused."""
    return replace(outcome, data={**outcome.data, REFUSED: True}) if done.refused else outcome


async def _objection(
    step: StepExecution, report: CheckReport, *, insisted: bool
) -> tuple[Objection, str]:
    profile = step.ctx.drivers.profiles.get(step.target.profile_type)
    other: object = profile
    if profile is None or not isinstance(other, SupportsCauseLookup) or not step.target.physical_id:
        return Objection.NONE, ""
    reading = await _read(step, profile)
    if isinstance(reading, Failure):
        return (Objection.NONE, "") if insisted else (Objection.UNASKED, reading.why)
    found, why = of_reading(reading)
    if insisted:
        return (found, why) if found is Objection.LOCKED else (Objection.NONE, "")
    if found is Objection.NONE and may_be_wished(reading) and not report.host_lost:
        found, why = await _wished(step, other)
    return found, why


async def _read(step: StepExecution, profile: Profile) -> Reading | Failure:
    call_s = step.call_s()
    answer = await call_driver(
        lambda: profile.read([step.target], deadline_s=call_s),
        Sequence,  # type: ignore[type-abstract]
        within_s=call_s + step.session.grace_s(),
        what=f"{step.target.profile_type} reading {step.node.name}",
    )
    if isinstance(answer, Failure):
        return answer
    (reading,) = answer if len(answer) == 1 else (None,)
    if not isinstance(reading, Reading):
        return Failure(why=f"{step.target.profile_type} answered with no reading")
    return reading


async def _wished(step: StepExecution, profile: SupportsCauseLookup) -> tuple[Objection, str]:
    call_s = step.call_s()
    cause = await call_driver(
        lambda: profile.cause(step.target, deadline_s=call_s),
        Cause,
        within_s=call_s + step.session.grace_s(),
        what=f"{step.target.profile_type} tracing {step.node.name}",
    )
    if isinstance(cause, Failure):
        return Objection.UNASKED, cause.why
    return of_cause(cause, acted=step.place.acted), cause.detail
