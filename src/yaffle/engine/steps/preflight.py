"""Pre-flight check before what cannot be undone: could the copy be made again?

The answer is one of three. That it cannot is the step's end: nothing is killed, and the ladder goes
on; where no rung of it could be begun, no attempt is spent, and it is asked again ever more rarely. That
nobody knows is neither: the question is repeated for a while, then a later attempt has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import structlog

from yaffle.core.recovery.ladder import Result
from yaffle.engine.runtime.driver_call import Failure, call_driver
from yaffle.engine.steps.objections import hindered
from yaffle.engine.steps.step import Outcome, StepExecution, ask_leave
from yaffle.model.operations import Hindrance, Operation, Outlook, Prospect
from yaffle.ports import SupportsPreflight
from yaffle.store import journal

if TYPE_CHECKING:
    from yaffle.store.rows import StepRow

log = structlog.get_logger()

PATIENCE_S: Final = 15.0
"""How long a question that gets no answer is repeated; never more than half of the step's time."""
PAUSE_S: Final = 1.0
WITHHELD: Final = "withheld"
"""In the journal of a step that was not begun: the outlook that it was not begun for."""
DETAIL_MAX: Final = 2000


async def preflight(
    step: StepExecution, kind: str, params: Mapping[str, object], result: Result
) -> Outcome | None:
    """Return the step's end, as `result`, where `kind` could not follow it; None: go on.

    What an earlier life of the engine has begun is not asked about any more: it is followed to its
    end. Raises Refused when a user, or a stop, takes the right to act away meanwhile.
    """
    profile: object = step.ctx.drivers.profiles.get(step.target.profile_type)
    if not isinstance(profile, SupportsPreflight) or (
        step.resumed and step.row.phase == journal.SUBMITTED
    ):
        return None
    target = step.target if step.renewed is None else replace(step.target, spec=step.renewed)
    op = Operation(kind=kind, target=target, params=params, timeout_s=step.left_s())
    until_s = step.left_s() - min(PATIENCE_S, step.left_s() / 2)
    said = await _asked(step, profile, op)
    while said.outlook is Outlook.UNKNOWN and step.left_s() > until_s:
        await step.ctx.clock.sleep(PAUSE_S)
        await ask_leave(step)
        said = await _asked(step, profile, op)
    if said.outlook is Outlook.POSSIBLE:
        return None
    log.warning("act withheld", node=step.node.name, kind=kind, detail=said.detail)
    why = (
        f"{kind} would be refused, so that nothing was given up for it: {said.detail}"
        if said.outlook is Outlook.IMPOSSIBLE
        else f"not begun, for it is not known whether {kind} could follow: {said.detail}"
    )
    # Of what somebody else has begun nobody can say that nothing was done.
    data = {} if step.resumed else {WITHHELD: said.outlook.value}
    unasked = said.outlook is Outlook.UNKNOWN and hindered(step, why, Hindrance.UNASKED)
    if unasked:
        return replace(unasked, data={**unasked.data, **data})
    return Outcome(result=result, detail=why, data=data)


async def _asked(step: StepExecution, profile: SupportsPreflight, op: Operation) -> Prospect:
    """Ask once; no usable answer is UNKNOWN."""
    call_s = step.call_s()
    said = await call_driver(
        lambda: profile.foresee(op, deadline_s=call_s),
        Prospect,
        within_s=call_s + step.session.grace_s(),
        what=f"{step.target.profile_type} foreseeing {op.kind} of {step.node.name}",
    )
    if isinstance(said, Failure):
        return Prospect(outlook=Outlook.UNKNOWN, detail=said.why)
    try:
        outlook = Outlook(said.outlook)
    except ValueError:
        return Prospect(outlook=Outlook.UNKNOWN, detail="the driver answered with no outlook")
    return replace(said, outlook=outlook, detail=str(said.detail).replace("\0", "")[:DETAIL_MAX])


def was_withheld(past: Sequence[StepRow]) -> bool:
    """Whether an act of this walk was not begun, for what it gives up could not be made again."""
    return any(step.data.get(WITHHELD) for step in past)


def impossible(past: Sequence[StepRow]) -> str:
    """Return why what the last such act gives up could not be made again; empty where none was so."""
    no = [step for step in past if step.data.get(WITHHELD) == Outlook.IMPOSSIBLE.value]
    return no[-1].detail if no else ""
