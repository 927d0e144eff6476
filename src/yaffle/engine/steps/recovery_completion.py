"""Sets a node's row, attempts, mark and incident at the end of a recovery."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from yaffle.core.health.node_lifecycle import NodeEvent, move, remark
from yaffle.core.planning import retry
from yaffle.core.recovery.ladder import End, Result, Stage
from yaffle.core.recovery.objections import OBJECTION, Objection
from yaffle.engine.action_inputs.target_mapping import retry_of
from yaffle.engine.incidents import lifecycle
from yaffle.engine.steps.disk_snapshot import lost_for
from yaffle.engine.steps.evidence import HOST
from yaffle.engine.steps.objections import REFUSED
from yaffle.engine.steps.preflight import WITHHELD, impossible, was_withheld
from yaffle.model.health import Health, NodeStatus
from yaffle.model.ids import IncidentId
from yaffle.model.incident import IncidentState
from yaffle.store import budgets, catalog, incidents, journal

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.engine.action_inputs.policy_snapshot import PolicySnapshot
    from yaffle.engine.runtime.context import EngineContext
    from yaffle.store.rows import ActionRow, IncidentRow, NodeRow, StepRow

NOTHING_BEGUN = {End.RECOVERED: End.ALREADY_HEALTHY, End.EXHAUSTED: End.ABANDONED}
"""What an end is where every act was withheld: whoever is well got so by itself, nobody was tried."""
UNTOUCHED = frozenset({End.ALREADY_HEALTHY, End.ABANDONED})
"""Ends after which an attempt that touched nothing is given back."""
TOUCHING = frozenset({Stage.FENCE.value, Stage.DELETE.value, Stage.CREATE.value, Stage.ACT.value})
SUCCEEDED = frozenset({End.RECOVERED, End.ALREADY_HEALTHY, End.DONE})


def ended(
    ctx: EngineContext,
    conn: Connection,
    action: ActionRow,
    node: NodeRow,
    how: End,
    past: Sequence[StepRow],
    snapshot: PolicySnapshot,
    now_us: int,
) -> None:
    """Write what a recovery's end means for the node, its retry budget and its incident."""
    policy = snapshot.recovery.retry
    detail = past[-1].detail if past else ""
    how = _truly(how, past)
    state = retry_of(node)
    if how in UNTOUCHED and not spent(past):
        state = retry.refunded(state, now_us)
    if how in SUCCEEDED and action.inputs.get("by"):
        # A person asked for it and it worked: that is an acknowledgement.
        state = retry.FRESH
    values: dict[str, object]
    match how:
        case End.RECOVERED | End.DONE:
            state = retry.ended(state, policy, now_us)
            values = move(node, NodeEvent.RECOVERED, "Recovery succeeded")
        case End.ALREADY_HEALTHY:
            # It rests all the same: a watch and a look that disagree must not take turns for ever.
            state = retry.ended(state, policy, now_us)
            values = move(node, NodeEvent.RECOVERED, "already healthy")
        case End.SUPERSEDED:
            values = _taken_over(node, past)
        case End.ABANDONED:
            state = retry.ended(state, policy, now_us, unseen=_unseen(conn, action, past))
            values = move(node, NodeEvent.ABANDONED, f"abandoned: {detail}")
        case End.EXHAUSTED:
            state = retry.ended(state, policy, now_us)
            if retry.spent(state, policy):
                state = retry.exhausted(state, now_us)
            said = f"attempt {state.attempts} of {policy.attempts} failed: {detail}"
            values = move(node, NodeEvent.ATTEMPT_FAILED, said)
    if how in SUCCEEDED:
        values |= _answered(conn, node, past, now_us)
    catalog.set_node(
        conn,
        node.id,
        now_us,
        **values,
        attempts=state.attempts,
        next_attempt_us=state.next_us,
        exhausted_us=state.exhausted_us,
    )
    _give_back(ctx, conn, action, node, past, snapshot.recovery.limits.domain, now_us)
    incident = incidents.open_of(conn, node.id)
    if incident is not None and incident.id == action.incident_id:
        _end_incident(ctx, conn, node, incident, how, state, detail, now_us)


def _truly(how: End, past: Sequence[StepRow]) -> End:
    """Return the end for what it is."""
    return NOTHING_BEGUN.get(how, how) if untried(past) else how


def _answered(
    conn: Connection, node: NodeRow, past: Sequence[StepRow], now_us: int
) -> dict[str, object]:
    """Return what is known of a node that was healed, or found healthy."""
    # One whose creation failed was completed by its first recovery.
    values = _verified(conn, node, past, now_us) | {"made_us": node.made_us or now_us}
    if node.mark_reason is not None:
        # The mark spoke of a state that has been dealt with: a recovery answers it (ADR 0003).
        values |= {"mark_reason": None, "mark_by": "", "mark_us": None}
    return values


def _taken_over(node: NodeRow, past: Sequence[StepRow]) -> dict[str, object]:
    """Whoever took over may not touch the copy, or was somebody who only said stop."""
    why = "recovery superseded by a user's action"
    if node.status != NodeStatus.RECOVERING:
        return remark(node, why)
    begun = any(map(touched, past))
    return move(node, NodeEvent.BROKEN_OFF if begun else NodeEvent.SPARED, why)


def _verified(
    conn: Connection, node: NodeRow, past: Sequence[StepRow], now_us: int
) -> dict[str, object]:
    """The node was looked at and has risen: it is healthy now, not only when the watch asks next."""
    said = past[-1].data.get("backend_status") if past else None
    backend: dict[str, object] = {"backend_status": said} if isinstance(said, str) and said else {}
    if node.health == Health.HEALTHY:
        return backend | ({"health_reason": ""} if node.left_as_it_is else {})
    lifecycle.node_event(
        conn,
        node,
        at_us=now_us,
        action="HEALTH",
        status=Health.HEALTHY.value,
        reason=f"was {node.health}, verified",
        data={"from": node.health, "to": Health.HEALTHY.value},
    )
    return {
        **backend,
        "health": Health.HEALTHY.value,
        "health_us": now_us,
        "healthy_us": now_us,
        "health_reason": "",
    }


STATES = {
    End.RECOVERED: IncidentState.RECOVERED,
    End.DONE: IncidentState.RECOVERED,
    End.ALREADY_HEALTHY: IncidentState.ALREADY_HEALTHY,
    End.SUPERSEDED: IncidentState.SUPERSEDED,
    End.ABANDONED: IncidentState.OPEN,
    End.EXHAUSTED: IncidentState.OPEN,
}
"""What an incident becomes; a ladder that failed leaves it open while attempts are left."""


def touched(step: StepRow) -> bool:
    """Whether the step may have changed the target: one that was refused at once has not."""
    refused = step.result in {Result.HALTED, Result.SUPERSEDED} or bool(step.data.get(WITHHELD))
    return step.stage in TOUCHING and (step.submitted_us is not None or not refused)


def untried(past: Sequence[StepRow]) -> bool:
    """Whether nothing was begun, for what an act gives up could not be made again."""
    return was_withheld(past) and not any(map(touched, past))


def tried(step: StepRow) -> bool:
    """Whether the step was an attempt: what could not be asked for, or must not be, was none."""
    return touched(step) and not step.data.get(OBJECTION)


def spent(past: Sequence[StepRow]) -> bool:
    """Whether a recovery was an attempt: not by an act of which nobody could see whether it helped."""
    last = past[-1] if past else None
    unseen = last is not None and last.stage == Stage.VERIFY and bool(last.data.get(OBJECTION))
    return any(tried(s) for s in past if not (unseen and last and s.rung == last.rung))


def costs(step: StepRow) -> bool:
    """Whether the step may have destroyed or made anything: what others share is spent for that."""
    unproved = step.stage == Stage.FENCE and step.result != Result.PROVED
    # One that was taken up did something, whether or not anybody was told what.
    acted = tried(step) or (touched(step) and step.result == Result.FAILED)
    return acted and not unproved and not step.data.get(REFUSED)


def _give_back(
    ctx: EngineContext,
    conn: Connection,
    action: ActionRow,
    node: NodeRow,
    past: Sequence[StepRow],
    domain: str | None,
    now_us: int,
) -> None:
    """Return what a recovery took of the shared budgets, unless it came to anything."""
    dear = list(filter(costs, past))
    if dear and all(map(_host_off, dear)):
        # A host that this very failure has had switched off before was not switched off again.
        before = set(map(_host_off, _others(conn, action)))
        dear = [s for s in dear if _host_off(s) not in before]
    if not dear and not (any(map(_unproved, past)) and not _others(conn, action)):
        budgets.give_back(conn, node, domain, ctx.budgets, now_us)


def _unproved(step: StepRow) -> bool:
    """Whether a fence may have ended the copy without a proof: the first recovery of a failure pays.

    Only the first, for a copy ends once. Free, a backend that is slow with its proofs would let more be
    ended in an hour than the budget allows.
    """
    begun = step.result == Result.UNPROVED and tried(step) and not step.data.get(REFUSED)
    return step.stage == Stage.FENCE and begun


def _host_off(step: StepRow) -> object:
    """Return the host that a fence has proved off; None for anything else."""
    return step.data.get(HOST) if step.stage == Stage.FENCE else None


def _unseen(conn: Connection, action: ActionRow, past: Sequence[StepRow]) -> int:
    """Return how many recoveries of this failure are no attempts, and yet not repeated ever so often.

    Nobody knows what their acts came to, or nothing could be begun for want of what only a person mends.
    """
    if not any(map(_in_doubt, past)):
        return 0
    return 1 + len({s.action_id for s in _others(conn, action) if _in_doubt(s)})


def _in_doubt(step: StepRow) -> bool:
    unasked = step.data.get(OBJECTION) == Objection.UNASKED.value
    unseen = unasked and (touched(step) or step.stage == Stage.VERIFY)
    return unseen or bool(impossible([step]))


def _others(conn: Connection, action: ActionRow) -> Sequence[StepRow]:
    """Return the steps of the other recoveries of the same failure."""
    found = journal.of_incident(conn, IncidentId(action.incident_id or ""))
    return [s for s in found if s.action_id != action.id]


def _disk_lost(past: Sequence[StepRow]) -> str:
    """Return why the disk was not kept that was given up; empty where it was kept, or is there still."""
    said = next((place for place, row in enumerate(past) if lost_for([row])), len(past))
    return lost_for(past) if any(map(touched, past[said + 1 :])) else ""


def _end_incident(
    ctx: EngineContext,
    conn: Connection,
    node: NodeRow,
    incident: IncidentRow,
    how: End,
    state: retry.RetryState,
    detail: str,
    now_us: int,
) -> None:
    spent = how is End.EXHAUSTED and state.exhausted_us is not None
    again = how is End.EXHAUSTED and not spent
    said = f"attempt {state.attempts} failed, others are left" if again else how.value
    story = journal.of_incident(conn, incident.id)
    # Only a person can mend what is missing: told once, however often it is looked at again.
    missing = how is End.ABANDONED and impossible(story[-1:]) == detail
    again = again or (missing and all(step.detail != detail for step in story[:-1]))
    becomes = IncidentState.EXHAUSTED if spent else STATES[how]
    columns: dict[str, object] = {}
    if lost := _disk_lost(story):
        detail = f"its disk was NOT kept ({lost}); {detail}"
    if how in SUCCEEDED:
        columns["recovered_us"] = now_us
        ctx.metrics.recover.observe(max(0.0, (now_us - incident.opened_us) / 1e6))
    lifecycle.transition(
        ctx,
        conn,
        node,
        incident,
        becomes,
        reason=f"{said}: {detail}",
        now_us=now_us,
        tell=lifecycle.ATTEMPT_FAILED if again else becomes is not IncidentState.OPEN,
        **columns,
    )
