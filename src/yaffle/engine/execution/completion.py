"""Writes what an action's start, each of its steps and its end mean for its rows.

Each function is one transaction's work and is guarded by the epoch: a late hand writes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from yaffle.core.health.node_lifecycle import NodeEvent, move
from yaffle.core.recovery.ladder import End, Result, Stage
from yaffle.engine.action_inputs.recover_requests import NOT_BEGUN
from yaffle.engine.action_inputs.target_mapping import target_of
from yaffle.engine.cluster_actions import capacity_compensation
from yaffle.engine.cluster_actions.cancellation import deletion_cancelled
from yaffle.engine.detection.health_persistence import refresh_cluster
from yaffle.engine.incidents import lifecycle
from yaffle.engine.steps import (
    disk_snapshot,
    host_alert,
    host_quarantine,
    node_action_completion,
    recovery_completion,
)
from yaffle.engine.steps.node_action_plan import IN_DOUBT
from yaffle.engine.steps.recovery_completion import SUCCEEDED, touched
from yaffle.model.action import ActionKind
from yaffle.model.ids import IncidentId
from yaffle.model.incident import IncidentState
from yaffle.store import actions, catalog, incidents, journal, late_resources, lock_owners, orphans

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.engine.action_inputs.policy_snapshot import PolicySnapshot
    from yaffle.engine.runtime.context import EngineContext
    from yaffle.engine.steps.step import Outcome, StepExecution
    from yaffle.store.rows import ActionRow, NodeRow, StepRow

COMPLETED = "Action completed successfully."
DELETE_AGAIN_S = 5.0
DELETE_AGAIN_MAX_S = float(actions.PUT_OFF_MAX_S)


def started(ctx: EngineContext, conn: Connection, action: ActionRow, now_us: int) -> None:
    """Set the rows of an action that starts: its node's status, its incident's start."""
    if action.node_id is None:
        return
    node = catalog.node(conn, action.node_id)
    if node is not None and (values := node_action_completion.begun(action, node)):
        catalog.set_node(conn, node.id, now_us, **values)
    incident = incidents.open_of(conn, action.node_id) if action.incident_id else None
    if incident is not None:
        incidents.set_values(conn, incident.id, started_us=incident.started_us or now_us)
        decided_us = incident.decided_us or now_us
        ctx.metrics.start.observe(max(0.0, (now_us - decided_us) / 1e6))


def write_step(ctx: EngineContext, conn: Connection, step: StepExecution, outcome: Outcome) -> None:
    """Write a step's result together with everything it changed."""
    now_us = ctx.clock.now_us()
    journal.ended(
        conn,
        step.ticket,
        step.row,
        result=outcome.result.value,
        detail=outcome.detail,
        data=outcome.data,
        now_us=now_us,
    )
    if outcome.proof is not None:
        journal.add_proof(
            conn,
            ident=step.row.operation_id,
            incident_id=step.action.incident_id or "",
            action_id=step.action.id,
            node_id=step.node.id,
            # Not the node's: the step may have found another copy, and it is that one's end.
            physical_id=step.target.physical_id,
            proof=outcome.proof,
            waived=outcome.result is Result.WAIVED,
        )
    if outcome.evidence is not None and step.action.incident_id:
        incidents.set_values(conn, IncidentId(step.action.incident_id), evidence=outcome.evidence)
    if outcome.result is Result.PROVED and step.place.stage is Stage.DELETE:
        orphans.settle(conn, step.node.id, step.target.physical_id, now_us)
    if outcome.debris:
        orphans.add(conn, step.row.operation_id, step.target, now_us)
    host_quarantine.enter(ctx, conn, step, outcome, now_us)
    host_alert.tell(ctx, conn, step, outcome, now_us)
    disk_snapshot.tell(ctx, conn, step, outcome, now_us)
    values = _changes(outcome, now_us)
    facts, maybe = values.get("attributes"), step.node.attributes.get(IN_DOUBT)
    if maybe and isinstance(facts, dict) and step.place.stage is not Stage.CREATE:
        # It is the same copy still; what an update makes certain is written at its end.
        facts[IN_DOUBT] = maybe
    if values:
        catalog.set_node(conn, step.node.id, now_us, **values)


def _changes(outcome: Outcome, now_us: int) -> dict[str, object]:
    values: dict[str, object] = {}
    if outcome.physical_id is not None:
        values["physical_id"] = outcome.physical_id
    if outcome.attributes is not None:
        values["attributes"] = dict(outcome.attributes)
    if outcome.restarted and outcome.result is Result.DONE:
        values["grace_us"] = now_us
    return values


def vanished(
    ctx: EngineContext, ticket: actions.Ticket, conn: Connection, action: ActionRow
) -> None:
    """End an action whose node is gone."""
    actions.guard(conn, ticket)
    now_us = ctx.clock.now_us()
    actions.end(
        conn,
        action.id,
        now_us,
        status=actions.CANCELLED,
        reason="the node is gone",
        outputs={},
    )
    _remove_if_empty(conn, action)


def poisoned(
    ctx: EngineContext, ticket: actions.Ticket, conn: Connection, action: ActionRow, why: str
) -> None:
    """End an action whose own rows cannot be read: it must not take the engine down for ever."""
    actions.guard(conn, ticket)
    now_us = ctx.clock.now_us()
    reason = f"the action's record is damaged: {why}"
    node = None if action.node_id is None else catalog.node(conn, action.node_id)
    unwanted = node is not None and action.action == ActionKind.NODE_DELETE
    if node is not None and unwanted:
        # What a user wants gone is tried again, with a journal of its own.
        _deleted(ctx, conn, action, node, End.EXHAUSTED, reason, now_us)
    actions.end(conn, action.id, now_us, status=actions.FAILED, reason=reason, outputs={})
    if node is None or unwanted:
        return
    catalog.set_node(
        conn,
        node.id,
        now_us,
        **move(node, NodeEvent.BROKEN_OFF, reason),
        exhausted_us=now_us,
    )
    incident = incidents.open_of(conn, node.id)
    if incident is not None:
        lifecycle.transition(
            ctx, conn, node, incident, IncidentState.EXHAUSTED, reason=reason, now_us=now_us
        )


def end(
    ctx: EngineContext,
    ticket: actions.Ticket,
    conn: Connection,
    action: ActionRow,
    how: End,
    past: Sequence[StepRow],
    snapshot: PolicySnapshot,
) -> None:
    """End the action, its incident and its hold on the node."""
    actions.guard(conn, ticket)
    now_us = ctx.clock.now_us()
    last = past[-1].detail if past else ""
    reason = f"{how.value}: {last}"[:4000]
    node = None if action.node_id is None else catalog.node(conn, action.node_id)
    if node is not None:
        match action.action:
            case ActionKind.NODE_CREATE:
                _created(conn, node, how, reason, now_us)
            case ActionKind.NODE_DELETE:
                if how is End.SUPERSEDED:
                    _kept(conn, action, node, past, now_us)
                else:
                    _deleted(ctx, conn, action, node, how, reason, now_us)
            case ActionKind.NODE_CHECK | ActionKind.NODE_UPDATE | ActionKind.NODE_OPERATION:
                node_action_completion.ended(ctx, conn, action, node, how, past, now_us)
            case _:
                recovery_completion.ended(ctx, conn, action, node, how, past, snapshot, now_us)
    status = actions.SUCCEEDED if how in SUCCEEDED else actions.FAILED
    actions.end(
        conn,
        action.id,
        now_us,
        status=actions.CANCELLED if how is End.SUPERSEDED else status,
        reason=COMPLETED if how in SUCCEEDED and not last.startswith(NOT_BEGUN) else reason,
        outputs={"end": how.value},
    )
    if how is End.SUPERSEDED or (how not in SUCCEEDED and action.action != ActionKind.NODE_DELETE):
        # A deletion that failed is tried again by another action, on the same account.
        capacity_compensation.give_back(conn, action, now_us)
    if action.cluster_id is not None:
        refresh_cluster(conn, action.cluster_id, now_us)
        _remove_if_empty(conn, action)


def _created(conn: Connection, node: NodeRow, how: End, reason: str, now_us: int) -> None:
    well = how is End.DONE
    event = NodeEvent.CREATED if well else NodeEvent.CREATE_FAILED
    catalog.set_node(
        conn,
        node.id,
        now_us,
        **move(node, event, "Creation succeeded" if well else reason),
        # A creation that failed leaves a node that is watched and healed like any other.
        grace_us=now_us if well else None,
        made_us=now_us if well else None,
    )
    lifecycle.node_event(
        conn,
        node,
        at_us=now_us,
        action=ActionKind.NODE_CREATE,
        status="end" if well else "error",
        reason=reason,
    )


def _forget(conn: Connection, action: ActionRow, node: NodeRow, now_us: int) -> None:
    """Remove a node's row, and note it where a copy may still come about."""
    if late_resources.expected(conn, node.id, Stage.CREATE):
        profile = catalog.profile(conn, node.profile_id)
        late_resources.note(conn, action.id, target_of(node, profile, ""), now_us)
    catalog.remove_node(conn, node.id)


def _gone(
    ctx: EngineContext,
    conn: Connection,
    action: ActionRow,
    node: NodeRow,
    reason: str,
    now_us: int,
) -> None:
    """End the incident of a deleted node, write its event, remove its row."""
    incident = incidents.open_of(conn, node.id)
    if incident is not None:
        told = "the node was deleted"
        lifecycle.transition(
            ctx, conn, node, incident, IncidentState.SUPERSEDED, reason=told, now_us=now_us
        )
    lifecycle.node_event(
        conn, node, at_us=now_us, action=ActionKind.NODE_DELETE, status="end", reason=reason
    )
    _forget(conn, action, node, now_us)


def _deleted(
    ctx: EngineContext,
    conn: Connection,
    action: ActionRow,
    node: NodeRow,
    how: End,
    reason: str,
    now_us: int,
) -> None:
    """End a NODE_DELETE: remove the node, or queue the next attempt; it is never healed again."""
    if how is End.DONE:
        _gone(ctx, conn, action, node, reason, now_us)
        return
    present = actions.unfinished(conn, node_id=node.id)
    if any(a.action == ActionKind.NODE_DELETE and a.id != action.id for a in present):
        return  # another deletion waits for the lock, and goes on from here
    tries = as_count(action.inputs.get("tries")) + 1
    wait_s = min(DELETE_AGAIN_S * 2.0 ** min(tries - 1, 10), DELETE_AGAIN_MAX_S)
    said = f"not deleted yet (attempt {tries}, again in {wait_s:g} s): {reason}"
    catalog.set_node(conn, node.id, now_us, **move(node, NodeEvent.DELETE_BEGUN, said))
    lifecycle.node_event(
        conn,
        node,
        at_us=now_us,
        action=ActionKind.NODE_DELETE,
        status="error",
        reason=said,
        level=40,
    )
    actions.add(
        conn,
        {
            "id": ctx.new_id(),
            "name": action.name,
            "action": ActionKind.NODE_DELETE,
            "target": node.id,
            "cluster_id": node.cluster_id,
            "node_id": node.id,
            "parent_id": action.parent_id,
            "cause": action.cause,
            # WAITING without the lock: the end of this action promotes it in this transaction.
            "status": actions.WAITING,
            "lease_us": now_us + int(wait_s * 1_000_000),
            "inputs": {**action.inputs, "tries": tries},
            # A time that was too short for its cluster's action is too short again.
            "timeout_s": max(action.timeout_s, int(ctx.settings.action_timeout)),
            "created_us": now_us,
            "project": action.project,
            "user": action.user,
            "domain": action.domain,
        },
    )


def _kept(
    conn: Connection, action: ActionRow, node: NodeRow, past: Sequence[StepRow], now_us: int
) -> None:
    """End a cancelled deletion: the node is watched again, in ERROR if it may have lost its copy."""
    begun = any(map(touched, past))
    event = NodeEvent.DELETE_BROKEN_OFF if begun else deletion_cancelled(action.inputs)
    why = "its deletion was cancelled" + (" after it had begun" if begun else "")
    catalog.set_node(conn, node.id, now_us, **move(node, event, why))
    lifecycle.node_event(
        conn,
        node,
        at_us=now_us,
        action=ActionKind.NODE_DELETE,
        status="error",
        reason=why,
        level=40,
    )


def as_count(value: object) -> int:
    """Return a positive count from a JSON column; 0 for anything else."""
    return value if isinstance(value, int) and value > 0 else 0


def _remove_if_empty(conn: Connection, action: ActionRow) -> None:
    """Remove the row of a cluster that is being deleted with its last node."""
    if action.cluster_id is None:
        return
    cluster = catalog.cluster(conn, action.cluster_id)
    if cluster is None or cluster.status != "DELETING":
        return
    if lock_owners.holder_of(conn, cluster.id) is not None:
        return  # its deletion is under way, and ends with the cluster
    if not catalog.nodes_of(conn, cluster.id):
        catalog.remove_cluster(conn, cluster.id)
