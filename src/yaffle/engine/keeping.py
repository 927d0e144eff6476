"""Snapshots of a failed copy's disk: when one is taken, and which rung boots from it.

A snapshot may carry what is wrong with the copy. So one is taken and booted at the first try of a
failure only, by one rung; whatever comes after that takes the profile's own image.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from yaffle.core.ladder import Result, Stage, loses_disk
from yaffle.engine.operate import operate
from yaffle.engine.step import Outcome, Step
from yaffle.model.operations import EMPTY, ProgressState

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
        return _without("one was taken at the first try of this failure, and did not help")
    done = await operate(step, SNAPSHOT, EMPTY)
    image = (done.attributes or {}).get(TAKEN)
    if done.state is ProgressState.DONE and image:
        return Outcome(result=Result.DONE, detail=done.detail, data={TAKEN: str(image)})
    return _without(done.detail)


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
