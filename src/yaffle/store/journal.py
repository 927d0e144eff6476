"""The journal of steps: the intent is on disk before the act, the result right after it.

Every write goes through `actions.guard`, so that an engine whose lease moved on writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from sqlalchemy import bindparam, insert, select, update

from yaffle.model.action import ActionKind
from yaffle.model.ids import ActionId, IncidentId, OperationId
from yaffle.store import actions
from yaffle.store.rows import StepRow, load
from yaffle.store.tables import actions as work
from yaffle.store.tables import proofs, steps

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.model.operations import Proof

INTENT: Final = "intent"
SUBMITTED: Final = "submitted"
ENDED: Final = "ended"


# Built once: to build one anew costs more than to carry it out.
_MINE: Final = (steps.c.action_id == bindparam("ident")) & (steps.c.seq == bindparam("number"))
_STEP: Final = select(steps).where(_MINE)
_STEPS: Final = select(steps).where(steps.c.action_id == bindparam("ident")).order_by(steps.c.seq)
_LAST_FAILURE: Final = (
    select(work.c.id)
    .where(
        work.c.incident_id == bindparam("ident"),
        work.c.action == ActionKind.NODE_RECOVER,
        work.c.status == actions.FAILED,
    )
    .order_by(work.c.end_us.desc(), work.c.id)
    .limit(1)
)
_OF_INCIDENT: Final = (
    select(steps)
    .join(work, work.c.id == steps.c.action_id)
    .where(work.c.incident_id == bindparam("ident"))
    .order_by(work.c.created_us, work.c.id, steps.c.seq)
)
_SET: Final = update(steps).where(_MINE)
_INSERT: Final = insert(steps)
_PROOF: Final = select(proofs.c.id).where(proofs.c.id == bindparam("ident"))
_INSERT_PROOF: Final = insert(proofs)
_WAIVED: Final = select(proofs.c.physical_id, proofs.c.action_id).where(
    proofs.c.node_id == bindparam("node"), proofs.c.waived.is_(True)
)


def of_action(conn: Connection, action_id: ActionId) -> Sequence[StepRow]:
    """Return the journal of one action in order."""
    rows = conn.execute(_STEPS, {"ident": action_id})
    return [load(StepRow, r) for r in rows]


def of_incident(conn: Connection, incident_id: IncidentId) -> Sequence[StepRow]:
    """Return the journals of all recoveries of an incident, the oldest first."""
    return [load(StepRow, r) for r in conn.execute(_OF_INCIDENT, {"ident": incident_id})]


def of_last_failure(conn: Connection, incident_id: IncidentId) -> Sequence[StepRow]:
    """Return the journal of the newest recovery of an incident that has failed; empty without one."""
    found = conn.execute(_LAST_FAILURE, {"ident": incident_id}).one_or_none()
    return () if found is None else of_action(conn, ActionId(found.id))


def begin(  # noqa: PLR0913 - an intent has that many parts
    conn: Connection,
    ticket: actions.Ticket,
    *,
    seq: int,
    rung: int,
    stage: str,
    operation: str,
    operation_id: OperationId,
    now_us: int,
    deadline_us: int,
) -> StepRow:
    """Write an intent as the action's step number `seq`.

    Writing it again changes nothing: a commit whose answer was lost may be repeated.
    """
    actions.guard(conn, ticket)
    mine = {"ident": ticket.action_id, "number": seq}
    if (present := conn.execute(_STEP, mine).one_or_none()) is not None:
        return load(StepRow, present)
    conn.execute(
        _INSERT,
        {
            "action_id": ticket.action_id,
            "seq": seq,
            "rung": rung,
            "stage": stage,
            "operation": operation,
            "operation_id": operation_id,
            "phase": INTENT,
            "epoch": ticket.epoch,
            "intent_us": now_us,
            "deadline_us": deadline_us,
        },
    )
    return load(StepRow, conn.execute(_STEP, mine).one())


def submitted(conn: Connection, ticket: actions.Ticket, step: StepRow, now_us: int) -> None:
    """Record that the operation was handed to the driver."""
    actions.guard(conn, ticket)
    _set(conn, step, phase=SUBMITTED, submitted_us=now_us, epoch=ticket.epoch)


def ended(
    conn: Connection,
    ticket: actions.Ticket,
    step: StepRow,
    *,
    result: str,
    detail: str,
    data: Mapping[str, object],
    now_us: int,
) -> None:
    """Record what a step came to."""
    actions.guard(conn, ticket)
    _set(
        conn,
        step,
        phase=ENDED,
        result=result,
        detail=detail[:4000],
        data=dict(data),
        ended_us=now_us,
        epoch=ticket.epoch,
    )


def _set(conn: Connection, step: StepRow, **values: object) -> None:
    conn.execute(_SET, {**values, "ident": step.action_id, "number": step.seq})


def add_proof(
    conn: Connection,
    *,
    ident: str,
    incident_id: str,
    action_id: ActionId,
    node_id: str,
    physical_id: str,
    proof: Proof,
    waived: bool,
) -> None:
    """Keep why we were sure, or who waived it; once, however often it is written."""
    if conn.execute(_PROOF, {"ident": ident}).one_or_none() is not None:
        return
    conn.execute(
        _INSERT_PROOF,
        {
            "id": ident,
            "incident_id": incident_id,
            "action_id": action_id,
            "node_id": node_id,
            "physical_id": physical_id,
            "method": proof.method,
            "evidence": proof.evidence,
            "by": proof.by,
            "at_us": proof.at_us,
            "waived": waived,
        },
    )


def waived(conn: Connection, action_id: ActionId, node_id: str) -> frozenset[str]:
    """Return the copies of a node that an operator wants no proof of; none unless this action says so."""
    found = conn.execute(_WAIVED, {"node": node_id}).all()
    if all(row.action_id != action_id for row in found):
        return frozenset()
    # Those of before too: the attempt that failed may have left a copy, beside the first one.
    return frozenset(row.physical_id for row in found if row.physical_id)
