"""Every change of an incident: one event, and one message per notifier, in the same transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from yaffle.model.incident import IncidentState
from yaffle.store import events, incidents

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.engine.kit import Kit
    from yaffle.model.ids import IncidentId
    from yaffle.store.records import IncidentRow, NodeRow

TOPICS: Mapping[IncidentState, str] = {
    IncidentState.OPEN: "incident.opened",
    IncidentState.HELD: "incident.held",
    IncidentState.RECOVERING: "incident.recovering",
    IncidentState.RECOVERED: "incident.recovered",
    IncidentState.ALREADY_HEALTHY: "incident.recovered",
    IncidentState.EXHAUSTED: "incident.exhausted",
    IncidentState.SUPERSEDED: "incident.superseded",
}
"""One row per state; a test reads it."""

LEVELS: Mapping[IncidentState, int] = {
    IncidentState.OPEN: 40,
    IncidentState.HELD: 30,
    IncidentState.RECOVERING: 20,
    IncidentState.RECOVERED: 20,
    IncidentState.ALREADY_HEALTHY: 20,
    IncidentState.EXHAUSTED: 50,
    IncidentState.SUPERSEDED: 20,
}

ENDED = frozenset(
    {
        IncidentState.RECOVERED,
        IncidentState.ALREADY_HEALTHY,
        IncidentState.EXHAUSTED,
        IncidentState.SUPERSEDED,
    }
)


def node_event(
    conn: Connection,
    node: NodeRow,
    *,
    at_us: int,
    action: str,
    status: str,
    reason: str,
    level: int = events.INFO,
    data: Mapping[str, object] | None = None,
) -> None:
    """Record something that happened to a node and needs no telling."""
    events.append(
        conn,
        _about(node, None),
        at_us=at_us,
        action=action,
        status=status,
        reason=reason,
        level=level,
        data=data or {},
    )


def _about(node: NodeRow, incident_id: IncidentId | None) -> events.Subject:
    return events.Subject(
        otype="NODE",
        oid=node.id,
        oname=node.name,
        cluster_id=node.cluster_id or "",
        node_id=node.id,
        incident_id=incident_id,
        project=node.project,
    )


def change(
    kit: Kit,
    conn: Connection,
    node: NodeRow,
    incident: IncidentRow,
    state: IncidentState,
    *,
    reason: str,
    now_us: int,
    tell: bool = True,
    **columns: object,
) -> None:
    """Move an incident to `state` (also the one just inserted), with its event and its messages.

    `tell`: whether the notifiers hear of it; going back to `open` for another try is no news.
    """
    ended: dict[str, object] = {"open_key": None, "ended_us": now_us} if state in ENDED else {}
    incidents.set_values(
        conn, incident.id, state=state.value, reason=reason[:4000], **ended, **columns
    )
    if state in ENDED:
        kit.metrics.incidents.labels(state.value).inc()
    body = {
        "incident": incident.id,
        "state": state.value,
        "node": node.id,
        "node_name": node.name,
        "cluster": incident.cluster_id,
        "cluster_name": incident.cluster_name,
        "cause": incident.cause,
        "reason": reason,
        "opened_us": incident.opened_us,
        "at_us": now_us,
        **{k: v for k, v in columns.items() if k in {"hold_reason", "hold_numbers"}},
    }
    events.append(
        conn,
        _about(node, incident.id),
        at_us=now_us,
        action="INCIDENT",
        status=state.value,
        reason=reason[:4000],
        level=LEVELS[state],
        data=body,
        notify=[(name, TOPICS[state], body) for name in kit.notify] if tell else [],
    )


def open_incident(
    kit: Kit,
    conn: Connection,
    node: NodeRow,
    cluster_name: str,
    *,
    cause: str,
    reason: str,
    first_fail_us: int | None,
    now_us: int,
) -> IncidentRow:
    """Return the node's open incident, opened now if there was none."""
    present = incidents.open_of(conn, node.id)
    if present is not None:
        return present
    incidents.add(
        conn,
        {
            "id": kit.new_id(),
            "node_id": node.id,
            "node_name": node.name,
            "cluster_id": node.cluster_id or "",
            "cluster_name": cluster_name,
            "state": IncidentState.OPEN.value,
            "cause": cause,
            "reason": reason[:4000],
            "first_fail_us": first_fail_us,
            "opened_us": now_us,
            "open_key": node.id,
            "project": node.project,
        },
    )
    opened = incidents.open_of(conn, node.id)
    assert opened is not None  # noqa: S101 - inserted two lines above
    change(kit, conn, node, opened, IncidentState.OPEN, reason=reason, now_us=now_us)
    return opened
