"""Sets a node's row after a check, an update or an operation.

None of them touches a user's mark or what the watch believes, but for a copy that was made anew:
it starts afresh, for whatever was said was said of the one before (ADR 0003).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from yaffle.core.health.node_lifecycle import REASON_MAX, NodeEvent, move, remark
from yaffle.core.recovery.ladder import End, Result, Stage
from yaffle.core.recovery.node_actions import of_name
from yaffle.core.recovery.objections import OBJECTION
from yaffle.engine.incidents import lifecycle
from yaffle.engine.steps import node_action_plan
from yaffle.engine.steps.preflight import was_withheld
from yaffle.model.action import ActionKind
from yaffle.model.health import Health
from yaffle.model.incident import IncidentState
from yaffle.store import catalog, incidents

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.engine.runtime.context import EngineContext
    from yaffle.store.rows import ActionRow, NodeRow, StepRow

ERROR_LEVEL: Final = 40


def begun(action: ActionRow, node: NodeRow) -> dict[str, object]:
    """Return what the start of an action changes of its node."""
    kind = of_name(action.action)
    admitted = action.action == ActionKind.NODE_RECOVER and action.cluster_id is not None
    if kind.begins is None or admitted:
        return {}  # in a cluster the planner that admitted a recovery has said so
    return move(node, kind.begins, kind.progress.format(operation=_operation(action)))


def _operation(action: ActionRow) -> str:
    return str(action.inputs.get("operation", "")).lower()


def ended(
    ctx: EngineContext,
    conn: Connection,
    action: ActionRow,
    node: NodeRow,
    how: End,
    past: Sequence[StepRow],
    now_us: int,
) -> None:
    """Write what the end of a check, an update or an operation means for the node."""
    detail = past[-1].detail if past else ""
    match action.action:
        case ActionKind.NODE_CHECK:
            values = _checked(node, how, past, detail)
        case ActionKind.NODE_UPDATE:
            values = _updated(ctx, conn, action, node, how, past, now_us)
        case _:
            values = _operated(action, node, how, past, detail)
    well = how in {End.DONE, End.ALREADY_HEALTHY}
    if values:
        catalog.set_node(conn, node.id, now_us, **values)
    lifecycle.node_event(
        conn,
        node,
        at_us=now_us,
        action=action.action,
        status="end" if well else "error",
        reason=str(values.get("status_reason") or detail)[:REASON_MAX],
        level=20 if well else ERROR_LEVEL,
    )


# --- check ---------------------------------------------------------------------------------------


def _checked(node: NodeRow, how: End, past: Sequence[StepRow], detail: str) -> dict[str, object]:
    """One look: Senlin's ERROR for a node that is not there, WARNING for one that is not well."""
    seen = past[-1].data if past else {}
    values: dict[str, object] = {}
    if isinstance(said := seen.get("backend_status"), str) and said:
        values["backend_status"] = said
    match how:
        case End.ALREADY_HEALTHY if node.health == Health.UNHEALTHY:
            # One look that passes does not outweigh a verdict: it has to rise.
            why = "Check: Physical object is ACTIVE but the node status was"
            said_before = node.status_reason.rpartition(": was ")[2]
            values |= remark(node, f"{why} {node.status}: was {said_before}")
        case End.ALREADY_HEALTHY:
            values |= move(node, NodeEvent.CHECK_PASSED, "Check: Node is ACTIVE.")
            values["health_reason"] = ""
        case End.DONE if seen.get(OBJECTION):
            values |= move(node, NodeEvent.CHECK_FAILED, f"Check: Node is not ACTIVE. {detail}")
            if node.health != Health.UNHEALTHY:
                # Whoever recovers all that is not active does not mean this one.
                values["health_reason"] = detail
        case End.DONE:
            missing = not node.physical_id or bool(seen.get("gone"))
            event = NodeEvent.CHECK_FOUND_NONE if missing else NodeEvent.CHECK_FAILED
            values |= move(node, event, f"Check: Node is not ACTIVE. {detail}")
        case _:
            # What could not be asked is unknown, not bad.
            return {}
    return values


# --- update --------------------------------------------------------------------------------------


def _updated(
    ctx: EngineContext,
    conn: Connection,
    action: ActionRow,
    node: NodeRow,
    how: End,
    past: Sequence[StepRow],
    now_us: int,
) -> dict[str, object]:
    profile = node_action_plan.new_profile_of(conn, action)
    if how is not End.DONE or profile is None:
        detail = past[-1].detail if past else ""
        values = _stopped(node, how, past, f"Update failed: {detail}", "update")
        # What was begun may have restarted the copy: it is not judged while that starts.
        begun = any(s.stage == Stage.ACT and s.submitted_us is not None for s in past)
        if not begun or profile is None:
            return values
        if "status_reason" in values:
            maybe = f"; the copy may have the properties of {profile.name}: update it again"
            values = values | {"status_reason": f"{values['status_reason']}{maybe}"}
            values |= {"grace_us": now_us}
        return values | {
            "attributes": {**_facts(conn, node), node_action_plan.IN_DOUBT: profile.id}
        }
    # From here on the row names the profile that the copy has.
    certain = {k: v for k, v in _facts(conn, node).items() if k != node_action_plan.IN_DOUBT}
    values = {"profile_id": profile.id, "attributes": certain}
    if not any(step.stage == Stage.CREATE for step in past):
        return values | move(node, NodeEvent.CHANGED, "Update succeeded")
    incident = incidents.open_of(conn, node.id)
    if incident is not None:
        lifecycle.transition(
            ctx,
            conn,
            node,
            incident,
            IncidentState.SUPERSEDED,
            reason="the node was made anew with another profile",
            now_us=now_us,
        )
    return values | move(node, NodeEvent.REMADE, "Update succeeded") | _afresh(node, now_us)


def _facts(conn: Connection, node: NodeRow) -> Mapping[str, object]:
    """Return what is stored of the copy by now: the last step may have brought more."""
    row = catalog.node(conn, node.id)
    return node.attributes if row is None else row.attributes


def _afresh(node: NodeRow, now_us: int) -> dict[str, object]:
    """Return what is known of a copy that has just been made: nothing yet."""
    return {
        "health": Health.INITIALIZING.value,
        "health_us": now_us,
        "health_reason": "",
        "healthy_us": None,
        "gray": False,
        "grace_us": now_us,
        "made_us": node.made_us or now_us,
        "mark_reason": None,
        "mark_by": "",
        "mark_us": None,
        "attempts": 0,
        "next_attempt_us": None,
        "exhausted_us": None,
    }


# --- operation -----------------------------------------------------------------------------------


def _operated(
    action: ActionRow, node: NodeRow, how: End, past: Sequence[StepRow], detail: str
) -> dict[str, object]:
    what = f"Operation '{_operation(action)}'"
    if how is End.DONE:
        return move(node, NodeEvent.CHANGED, f"{what} succeeded")
    return _stopped(node, how, past, f"{what} failed: {detail}", "operation")


def _stopped(
    node: NodeRow, how: End, past: Sequence[StepRow], why: str, what: str
) -> dict[str, object]:
    """What did not come to its end: ERROR if it may have changed anything, else as it was."""
    if how is End.SUPERSEDED and not any(map(_touched, past)):
        return move(node, NodeEvent.SPARED, f"the {what} was cancelled before it began")
    return move(node, NodeEvent.SPARED if was_withheld(past) else NodeEvent.BROKEN_OFF, why)


def _touched(step: StepRow) -> bool:
    refused = step.result in {Result.HALTED, Result.SUPERSEDED}
    return step.submitted_us is not None or not refused
