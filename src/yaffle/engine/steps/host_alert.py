"""Records the failure of a host with the proof that it is off, so that recovery controllers are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle.core.recovery.ladder import Result
from yaffle.engine.incidents.host_failure import FENCER, SECOND_US, record
from yaffle.engine.steps.evidence import powered_off
from yaffle.model.ids import IncidentId
from yaffle.store import alerts, incidents

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.engine.runtime.context import EngineContext
    from yaffle.engine.steps.step import Outcome, StepExecution
    from yaffle.store.rows import IncidentRow


def tell(
    ctx: EngineContext, conn: Connection, step: StepExecution, outcome: Outcome, now_us: int
) -> None:
    """Record the host that a step has proved off; nothing where no endpoint is told of hosts.

    The nodes of one host are fenced one by one, and its failure is one: that of the host's incident.
    A node that failed alone has no such; then a failure that nobody has taken over yet is the same.
    """
    off = powered_off(outcome.data) if outcome.result is Result.PROVED else None
    if not ctx.drivers.alerts or off is None or outcome.proof is None:
        return
    if off.word:
        # Whoever gave it tells of this failure, too: told by us as well, it would be two.
        return
    incident, whole = _incident(conn, step)
    if not whole and alerts.uncleared(conn, ctx.hosts.hostname(off.host)) is not None:
        return
    failed_us = None if incident is None else incident.first_fail_us or incident.opened_us
    if off.since_s is not None:
        # Its cluster has fenced it, and its monitor tells that by the same time: one failure.
        failed_us = off.since_s * SECOND_US
    record(
        ctx,
        conn,
        off.host,
        failure_us=now_us if failed_us is None else failed_us,
        proof=f"{outcome.proof.method}: {outcome.proof.evidence}",
        source=FENCER,
        incident_id="" if incident is None else incident.id,
        now_us=now_us,
    )


def _incident(conn: Connection, step: StepExecution) -> tuple[IncidentRow | None, bool]:
    """Return the incident of the host that the node failed with, or else the node's own; and which."""
    ident = step.action.incident_id
    own = incidents.by_id(conn, IncidentId(ident)) if ident else None
    if own is not None and own.parent_id is not None:
        parent = incidents.by_id(conn, own.parent_id)
        if parent is not None:
            return parent, True
    return own, False
