"""The snapshot step: when an image of the failed disk is taken, and which rung boots from it.

A snapshot may carry what is wrong with the copy. So one is taken once in a failure only, before
anything has given up the disk, and booted once, by one rung of that try or, where none of it came to
that, of a later one; whatever comes after that takes the profile's own image.

What the backend refuses, or does not finish in time, is done without, and said before the disk is
given up. A backend that could not be asked has refused nothing: the attempt is abandoned, for a disk is
not given up because of a silence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import structlog

from yaffle.core.recovery.ladder import Result, Stage, loses_disk
from yaffle.engine.incidents import lifecycle
from yaffle.engine.steps.driver_operation import operate
from yaffle.engine.steps.objections import hindered
from yaffle.engine.steps.step import Outcome, StepExecution
from yaffle.model.incident import IncidentState
from yaffle.model.operations import EMPTY, ProgressState
from yaffle.store import disk_images, incidents, journal

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.engine.runtime.context import EngineContext
    from yaffle.model.policy import Recovery, RecoveryAction
    from yaffle.store.rows import StepRow

log = structlog.get_logger()

SNAPSHOT: Final = "SNAPSHOT"
"""The operation by which a profile takes an image of a copy's disk."""
DISCARD: Final = "DISCARD"
"""By it a profile deletes what was taken under the same operation id; internal, and optional."""
PURPOSE, RECOVERY = "purpose", "recovery"
GIVE_UP_S: Final = 15.0
"""So much of a snapshot's time, a quarter at most, is for having it given up."""
TAKEN: Final = "snapshot"
"""The attribute that names the image, when it is done; also in the journal."""
IMAGE: Final = "image"
"""The parameter of what boots from it."""
BOOTED: Final = "booted_from"
LOST: Final = "disk_lost"
"""In the journal: why the disk could not be kept that is given up next."""
SETTLED: Final = frozenset({Result.DONE.value, Result.FAILED.value})


async def keep(step: StepExecution) -> Outcome:
    """Have an image taken of the failed copy's disk; what is refused, or late, is done without."""
    if (earlier := await _earlier(step)) is not None:
        return earlier
    if discards := DISCARD in _operations(step):
        await step.session.write(lambda conn: _remember(step, conn))
    spare_s = min(GIVE_UP_S, max(0.0, step.left_s()) / 4) if discards else 0.0
    asking = replace(step, deadline_s=step.deadline_s - spare_s)
    done = await operate(asking, SNAPSHOT, {PURPOSE: RECOVERY})
    image = (done.attributes or {}).get(TAKEN)
    if done.state is ProgressState.DONE and image:
        return Outcome(result=Result.DONE, detail=done.detail, data={TAKEN: str(image)})
    if unclear := hindered(
        step, f"not known whether its disk can be kept: {done.detail}", done.hindrance
    ):
        return unclear
    if discards:
        await _give_up(step)
    why = done.detail
    detail = f"its disk is NOT kept, and the profile's own image is used: {why}"
    return Outcome(result=Result.FAILED, detail=detail, data={LOST: why})


def _operations(step: StepExecution) -> Mapping[str, object]:
    profile = step.ctx.drivers.profiles.get(step.target.profile_type)
    return {} if profile is None else profile.operations


def _remember(step: StepExecution, conn: Connection) -> None:
    """Write down that there may be images of the node from now on, whatever becomes of this engine."""
    now_us = step.ctx.clock.now_us()
    due_us = now_us + int((max(0.0, step.left_s()) + GIVE_UP_S) * 1_000_000)
    disk_images.note(conn, step.target, due_us, now_us)


async def _give_up(step: StepExecution) -> None:
    """Have an image given up that is not ready: while it is being taken, nothing is rebuilt.

    Whatever comes of that: what follows is told by the backend if it is still too early.
    """
    given_up = await operate(step, DISCARD, EMPTY)
    log.info("snapshot given up", node=step.node.name, detail=given_up.detail)


async def _earlier(step: StepExecution) -> Outcome | None:
    """Return what an earlier attempt of this failure has settled; None where none came to that."""
    incident = step.action.incident_id
    if incident is None:
        return None
    past = await step.session.write(lambda conn: journal.of_incident(conn, incident))
    taken = next((str(row.data[TAKEN]) for row in reversed(past) if row.data.get(TAKEN)), "")
    if taken and not any(row.data.get(BOOTED) for row in past):
        why = "an earlier attempt of this failure has taken it, and nothing was made from it"
        return Outcome(result=Result.DONE, detail=why, data={TAKEN: taken})
    settled = any(row.stage == Stage.SNAPSHOT and row.result in SETTLED for row in past)
    # What counts as the first attempt may follow one that could not be asked for and was given back.
    if not settled or (step.node.attempts <= 1 and not taken):
        return None
    why = "no snapshot, the profile's own image is used: one is taken at the first attempt only"
    return Outcome(result=Result.FAILED, detail=why)


def lost_for(past: Sequence[StepRow]) -> str:
    """Return why the disk could not be kept that these steps gave up, or are about to; else nothing."""
    return next((str(row.data[LOST]) for row in past if row.data.get(LOST)), "")


def tell(
    ctx: EngineContext, conn: Connection, step: StepExecution, outcome: Outcome, now_us: int
) -> None:
    """Say that the disk cannot be kept, while it is still there."""
    incident = incidents.open_of(conn, step.node.id)
    if incident is None or not outcome.data.get(LOST):
        return
    state = IncidentState(incident.state)
    lifecycle.transition(
        ctx, conn, step.node, incident, state, reason=outcome.detail, now_us=now_us
    )


def image_to_boot(rung: RecoveryAction, past: Sequence[StepRow], recovery: Recovery) -> str:
    """Return the snapshot of this walk that a rung boots from; empty for the profile's own image."""
    if recovery.snapshot is None or not recovery.snapshot.restore or not loses_disk(rung):
        return ""
    if any(row.data.get(BOOTED) for row in past):
        return ""
    taken = [str(row.data.get(TAKEN, "")) for row in past if row.stage == Stage.SNAPSHOT.value]
    return taken[-1] if taken else ""


def booting(step: StepExecution, params: Mapping[str, object]) -> Mapping[str, object]:
    """Return the parameters with the snapshot; what the policy names itself outweighs it."""
    return {IMAGE: step.image, **params} if step.image else params


def booted(step: StepExecution, outcome: Outcome) -> Outcome:
    """Write down that the snapshot was booted, whatever came of it."""
    return replace(outcome, data={**outcome.data, BOOTED: step.image}) if step.image else outcome
