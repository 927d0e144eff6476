"""Names the host that a node is moved to, where the segment of its host keeps some in reserve (Masakari).

All nodes of one failed host are moved to the same one; it is no longer in reserve from then on. It is
opened first: the scheduler of a backend places nothing on a host that is kept closed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from yaffle.core.recovery.host_quarantine import MOVED
from yaffle.core.recovery.ladder import Result
from yaffle.core.recovery.reserved_hosts import Destination, destination
from yaffle.engine.runtime.driver_call import Failure, call_driver
from yaffle.engine.steps.objections import REFUSED, hindered
from yaffle.engine.steps.step import Outcome, StepExecution, ask_leave
from yaffle.model.instance_ha import RecoveryMethod
from yaffle.model.operations import Hindrance
from yaffle.model.policy import RungKind
from yaffle.ports import SupportsReservedHosts
from yaffle.store import events, instance_ha, journal
from yaffle.store.instance_ha import Kind

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.store.instance_ha import SegmentHostRow

OPENED: Final = "RESERVED_HOST"
"""The action of the events of a host that was kept in reserve."""


async def destined(step: StepExecution) -> StepExecution | Outcome:
    """Return the step with the host that its node is moved to, if one is to be named."""
    rung, profile = step.rung, step.ctx.drivers.profiles.get(step.target.profile_type)
    driver: object = profile
    moves = rung.kind is RungKind.BUILTIN and rung.name == MOVED and "host" not in rung.params
    if not moves or not isinstance(driver, SupportsReservedHosts):
        return step
    while (chosen := await step.session.write(lambda conn: _choose(conn, step))) is not None:
        if isinstance(chosen, str):
            return Outcome(result=Result.FAILED, detail=chosen)
        done = await _opened(step, driver, chosen)
        if done is not None:
            return done
    return step


async def _opened(
    step: StepExecution, driver: SupportsReservedHosts, spare: SegmentHostRow
) -> StepExecution | Outcome | None:
    """Open a reserved host and name it; None where it is down itself, and another one may do."""
    rung = replace(step.rung, params={**step.rung.params, "host": spare.name})
    if step.row.phase == journal.SUBMITTED:
        # An engine that is gone has opened it, and asked for the move: that is what is followed.
        return replace(step, rung=rung)
    await ask_leave(step)
    call_s = step.call_s()
    within_s = call_s + step.session.grace_s()
    await step.session.until_may_act(within_s)
    answer = await call_driver(
        lambda: driver.open_host(spare.name, step.target, deadline_s=call_s),
        object,
        within_s=within_s,
        what=f"the backend, to open reserved host {spare.name},",
    )
    if answer is True:
        return replace(step, rung=rung)
    if answer is False:
        await step.session.write(lambda conn: _give_up(conn, step, spare))
        return None
    why = answer.why if isinstance(answer, Failure) else str(answer)
    why = f"reserved host {spare.name}: {why}"
    unasked = hindered(step, why, Hindrance.UNASKED)
    ended = unasked or Outcome(result=Result.UNCLEAR, detail=why)
    return replace(ended, data={**ended.data, REFUSED: True})


def _choose(conn: Connection, step: StepExecution) -> SegmentHostRow | str | None:
    """Return the reserved host to move to; None where the backend decides; why nothing may be moved."""
    source = str(step.target.attributes.get("host") or "")
    names = {source, step.ctx.hosts.hostname(source)} - {""}
    failed = next((row for n in names if (row := instance_ha.host_named(conn, n))), None)
    segment = None if failed is None else instance_ha.segment(conn, failed.segment_id)
    if failed is None or segment is None or not segment.enabled:
        return None
    # What was asked for is followed, whatever became of that host meanwhile.
    asked = step.row.phase == journal.SUBMITTED
    spare = (instance_ha.taken_spare if asked else instance_ha.spare_of)(conn, failed)
    taken = spare is not None and spare.spare_for == failed.id
    method = RecoveryMethod(segment.recovery_method)
    where = destination(method, step.node.attempts, left=spare is not None)
    if where is Destination.ANYWHERE or (asked and spare is None):
        return None
    if where is None or spare is None:
        return f"segment {segment.name} has no reserved host left, and moves nodes to no other"
    if not taken:
        now_us = step.ctx.clock.now_us()
        if not instance_ha.take_spare(conn, spare, failed.id, now_us):
            # Another host that failed has it now.
            return _choose(conn, step)
        _event(conn, step, spare, "taken", f"it takes over from host {failed.name}")
    return spare


def _give_up(conn: Connection, step: StepExecution, spare: SegmentHostRow) -> None:
    now_us = step.ctx.clock.now_us()
    instance_ha.change(conn, Kind.HOST, spare.id, now_us, on_maintenance=True, spare_for="")
    _event(conn, step, spare, "down", "it was kept in reserve, and is down or unknown itself")


def _event(
    conn: Connection, step: StepExecution, spare: SegmentHostRow, status: str, why: str
) -> None:
    events.append(
        conn,
        events.Subject(otype="HOST", oid=spare.id, oname=spare.name),
        at_us=step.ctx.clock.now_us(),
        action=OPENED,
        status=status,
        reason=f"host {spare.name}: {why}",
        level=events.WARNING,
        data={"node": step.node.id},
    )
