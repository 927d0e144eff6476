"""Rebinds a node to the copy that is at its backend, where one made late has become its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import structlog

from yaffle.core.health.backend_status_codes import other_copy
from yaffle.engine.runtime.driver_call import Failure, call_driver
from yaffle.model.operations import Reading
from yaffle.model.timing import ADOPT_S

if TYPE_CHECKING:
    from yaffle.engine.steps.step import Outcome, StepExecution

log = structlog.get_logger()


async def adopted(step: StepExecution) -> StepExecution:
    """Return the step aimed at the copy that is there: one made late is not the one we know of.

    A CREATE that was given up may succeed after all. Unless its copy is taken for the node's own it
    is never deleted, for drivers spare whatever is newer than what they are told to delete.
    """
    profile = step.ctx.drivers.profiles.get(step.target.profile_type)
    if profile is None:
        return step
    found = await call_driver(
        lambda: profile.read([step.target], deadline_s=ADOPT_S),
        Sequence,  # type: ignore[type-abstract]
        within_s=ADOPT_S,
        what=f"{step.target.profile_type} reading {step.node.name}",
    )
    if isinstance(found, Failure) or len(found) != 1 or not isinstance(found[0], Reading):
        return step
    other = other_copy(step.target, found[0])
    if other is None:
        return step
    log.warning("copy adopted", node=step.node.name, physical_id=other.present)
    facts = step.target.attributes if other.attributes is None else other.attributes
    target = replace(step.target, physical_id=other.present, attributes=facts)
    return replace(step, target=target)


def knowing(step: StepExecution, outcome: Outcome) -> Outcome:
    """Return the outcome with the copy that was adopted, unless the step made a newer one."""
    if outcome.physical_id is not None or step.target.physical_id == step.node.physical_id:
        return outcome
    facts = outcome.attributes
    if facts is None and step.target.attributes != step.node.attributes:
        facts = step.target.attributes
    return replace(outcome, physical_id=step.target.physical_id, attributes=facts)
