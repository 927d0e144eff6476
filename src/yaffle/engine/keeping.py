"""Snapshots of a failed copy's disk: when one is taken, and which rung boots from it.

A snapshot may carry what is wrong with the copy. So one is taken at the first try of a failure only,
and booted once, by one rung of that try or, where none of it came to that, of a later one; whatever
comes after that takes the profile's own image.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from yaffle.core.ladder import Result, Stage, loses_disk
from yaffle.engine.operate import operate
from yaffle.engine.step import Outcome, Step
from yaffle.model.operations import EMPTY, ProgressState
from yaffle.store import journal

if TYPE_CHECKING:
    from yaffle.model.policy import Recovery, RecoveryAction
    from yaffle.store.records import StepRow

SNAPSHOT: Final = "SNAPSHOT"
"""The operation by which a profile takes an image of a copy's disk."""
TAKEN: Final = "snapshot"
"""The attribute that names the image, when it is done; also in the journal."""
IMAGE: Final = "image"
"""The parameter of what boots from it."""
BOOTED: Final = "booted_from"


async def keep(step: Step) -> Outcome:
    """Have an image taken of the failed copy's disk; what cannot be had in time is done without."""
    if step.node.attempts > 1:
        if left := await _unused(step):
            why = "an earlier try of this failure has taken it, and nothing was made from it"
            return Outcome(result=Result.DONE, detail=why, data={TAKEN: left})
        return _without("one is taken at the first try of a failure only")
    done = await operate(step, SNAPSHOT, EMPTY)
    image = (done.attributes or {}).get(TAKEN)
    if done.state is ProgressState.DONE and image:
        return Outcome(result=Result.DONE, detail=done.detail, data={TAKEN: str(image)})
    return _without(done.detail)


async def _unused(step: Step) -> str:
    """Return the image that an earlier try has taken, and none has booted; empty without one."""
    incident = step.action.incident_id
    if incident is None:
        return ""
    past = await step.kit.store.read(lambda conn: journal.of_incident(conn, incident))
    if any(row.data.get(BOOTED) for row in past):
        return ""
    return next((str(row.data[TAKEN]) for row in reversed(past) if row.data.get(TAKEN)), "")


def _without(why: str) -> Outcome:
    return Outcome(
        result=Result.FAILED, detail=f"no snapshot, the profile's own image is used: {why}"
    )


def image_to_boot(rung: RecoveryAction, past: Sequence[StepRow], recovery: Recovery) -> str:
    """Return the snapshot of this walk that a rung boots from; empty for the profile's own image."""
    if recovery.snapshot is None or not recovery.snapshot.restore or not loses_disk(rung):
        return ""
    if any(row.data.get(BOOTED) for row in past):
        return ""
    taken = [str(row.data.get(TAKEN, "")) for row in past if row.stage == Stage.SNAPSHOT.value]
    return taken[-1] if taken else ""


def booting(step: Step, params: Mapping[str, object]) -> Mapping[str, object]:
    """Return the parameters with the snapshot; what the policy names itself outweighs it."""
    return {IMAGE: step.image, **params} if step.image else params


def booted(step: Step, outcome: Outcome) -> Outcome:
    """Write down that the snapshot was booted, whatever came of it."""
    return replace(outcome, data={**outcome.data, BOOTED: step.image}) if step.image else outcome
