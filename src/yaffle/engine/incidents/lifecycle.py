"""Opens incidents and moves them: each writes one event, and one message per notifier.

Nobody else inserts an incident or sets its state (`tests/unit/test_owners.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from yaffle.core.health import diagnosis
from yaffle.model.incident import IncidentState
from yaffle.store import events, incidents

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.core.health.verdict import NodeMemory
    from yaffle.engine.runtime.context import EngineContext
    from yaffle.model.ids import IncidentId
    from yaffle.store.rows import IncidentRow, NodeRow

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
ATTEMPT_FAILED = "incident.attempt-failed"
"""An incident is open as before, for a recovery has failed and attempts are left."""

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

WORST_FIRST = (
    IncidentState.EXHAUSTED,
    IncidentState.RECOVERED,
    IncidentState.ALREADY_HEALTHY,
    IncidentState.SUPERSEDED,
)
"""What the incident of a host becomes: the first of these that one of its parts has ended as."""


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
    """Write an event of a node without notification."""
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


def _about_host(incident: IncidentRow) -> events.Subject:
    return events.Subject(
        otype="HOST", oid=incident.id, oname=incident.node_name, incident_id=incident.id
    )


def transition(
    ctx: EngineContext,
    conn: Connection,
    node: NodeRow | None,
    incident: IncidentRow,
    state: IncidentState,
    *,
    reason: str,
    now_us: int,
    tell: bool | str = True,
    **columns: object,
) -> None:
    """Move an incident to `state` (also the one just inserted), with its event and its messages.

    `node`: whose it is; None for that of a host. `tell`: whether the notifiers hear of it, or the
    topic under which, where that is not the state's.
    """
    ended: dict[str, object] = {"open_key": None, "ended_us": now_us} if state in ENDED else {}
    incidents.set_values(
        conn, incident.id, state=state.value, reason=reason[:4000], **ended, **columns
    )
    if state in ENDED and node is not None:
        ctx.metrics.incidents.labels(state.value).inc()
    # Of fifteen nodes that failed with their host one message is sent, about the host; who needs a
    # person is told of by name.
    heard = tell and (incident.parent_id is None or state is IncidentState.EXHAUSTED)
    about = _about_host(incident) if node is None else _about(node, incident.id)
    body = _body(incident, state, reason, now_us, columns)
    _append(ctx, conn, about, state, reason, now_us, body, tell=heard and tell)
    if state in ENDED and incident.parent_id is not None:
        host_over(ctx, conn, incident.parent_id, now_us)


def host_over(ctx: EngineContext, conn: Connection, parent: IncidentId, now_us: int) -> None:
    """End the incident of a host with the last of its child incidents, as the worst of them ended."""
    states = incidents.states_of_parts(conn, parent)
    host = incidents.by_id(conn, parent)
    if host is None or host.open_key is None or not states.keys() <= ENDED:
        return
    parts = (
        ", ".join(f"{count} {state}" for state, count in sorted(states.items())) or "none failed"
    )
    becomes = next((s for s in WORST_FIRST if s in states), IncidentState.SUPERSEDED)
    recovered = now_us if becomes is IncidentState.RECOVERED else None
    transition(
        ctx,
        conn,
        None,
        host,
        becomes,
        reason=f"nothing is left to be done: of its nodes {parts}",
        now_us=now_us,
        hold_reason=None,
        hold_numbers=None,
        recovered_us=recovered,
    )


def _body(
    incident: IncidentRow,
    state: IncidentState,
    reason: str,
    now_us: int,
    columns: Mapping[str, object],
) -> Mapping[str, object]:
    """Return the body of a notification; `parent` names the incident of the host, if any."""
    return {
        "incident": incident.id,
        "parent": incident.parent_id or "",
        "state": state.value,
        "node": incident.node_id,
        "node_name": incident.node_name,
        "cluster": incident.cluster_id,
        "cluster_name": incident.cluster_name,
        "cause": incident.cause,
        "reason": reason,
        "opened_us": incident.opened_us,
        "at_us": now_us,
        **{k: v for k, v in columns.items() if k in {"hold_reason", "hold_numbers"}},
    }


def _append(
    ctx: EngineContext,
    conn: Connection,
    about: events.Subject,
    state: IncidentState,
    reason: str,
    now_us: int,
    body: Mapping[str, object],
    *,
    tell: bool | str,
) -> None:
    topic = tell if isinstance(tell, str) else TOPICS[state]
    events.append(
        conn,
        about,
        at_us=now_us,
        action="INCIDENT",
        status=state.value,
        reason=reason[:4000],
        level=LEVELS[state],
        data=body,
        notify=[(name, topic, body) for name in ctx.notify] if tell else [],
    )


def explained(conn: Connection, incident: IncidentRow, cause: str) -> IncidentRow:
    """Return a node's incident with its cause, where that was not known when it was opened.

    A node that was found unhealthy just before we were blind is so still, and all that was seen of it
    is forgotten; what is seen next explains it.
    """
    if incident.cause != diagnosis.UNEXPLAINED.code:
        return incident
    incidents.set_values(conn, incident.id, cause=cause)
    return replace(incident, cause=cause)


def open_incident(
    ctx: EngineContext,
    conn: Connection,
    node: NodeRow,
    cluster_name: str,
    *,
    cause: str,
    memory: NodeMemory,
    now_us: int,
    parent: IncidentId | None = None,
) -> IncidentRow:
    """Return the node's open incident, opened now if there was none.

    `parent`: the incident of the host that it failed with.
    """
    present = incidents.open_of(conn, node.id)
    if present is not None:
        return present
    reason = diagnosis.explain(memory)
    last = incidents.last_of(conn, node.id)
    first_us = memory.first_fail_us
    if first_us is not None and last is not None:
        # What goes on after an incident's end is a story of its own: its times are not the other's.
        before_us = max(last.ended_us or 0, last.acknowledged_us or 0)
        first_us = min(max(first_us, before_us), now_us)
    opened = _insert(
        ctx,
        conn,
        key=node.id,
        cause=cause,
        reason=reason,
        now_us=now_us,
        node_id=node.id,
        node_name=node.name,
        cluster_id=node.cluster_id or "",
        cluster_name=cluster_name,
        first_fail_us=first_us,
        parent_id=parent,
        project=node.project,
    )
    transition(ctx, conn, node, opened, IncidentState.OPEN, reason=reason, now_us=now_us)
    return opened


def open_host(
    ctx: EngineContext,
    conn: Connection,
    place: str,
    key: str,
    *,
    cause: str,
    now_us: int,
    reason: str = "",
    first_fail_us: int | None = None,
) -> IncidentRow:
    """Insert the incident of a host, of which no other is open under this key; nobody is told yet.

    A host belongs to no project: whoever may see all sees it.
    """
    return _insert(
        ctx,
        conn,
        key=key,
        cause=cause,
        reason=reason,
        now_us=now_us,
        node_id="",
        node_name=f"host {place}",
        cluster_id="",
        cluster_name="",
        first_fail_us=first_fail_us,
        project="",
    )


def _insert(
    ctx: EngineContext,
    conn: Connection,
    *,
    key: str,
    cause: str,
    reason: str,
    now_us: int,
    **columns: object,
) -> IncidentRow:
    incidents.add(
        conn,
        {
            "id": ctx.new_id(),
            "state": IncidentState.OPEN.value,
            "cause": cause,
            "reason": reason[:4000],
            "opened_us": now_us,
            "open_key": key,
            **columns,
        },
    )
    return incidents.open_by_key(conn, [key])[key]
