"""Removes a member: queues its deletion behind whatever holds the node, and tells that to stop."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from yaffle.core.health.node_lifecycle import NodeEvent, move
from yaffle.engine.cluster_actions import capacity_compensation, lifecycle_hooks
from yaffle.engine.cluster_actions.enqueue import REQUESTED, queue
from yaffle.engine.incidents import lifecycle
from yaffle.model.action import ActionKind
from yaffle.model.incident import IncidentState
from yaffle.store import actions, catalog, incidents, lock_owners

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

    from yaffle.engine.runtime.context import EngineContext
    from yaffle.model.authz import Principal
    from yaffle.model.cluster_policies import Hook
    from yaffle.model.ids import ActionId
    from yaffle.store.rows import ActionRow, NodeRow

DELETE: Final = ActionKind.NODE_DELETE


def deletion_of(conn: Connection, node: NodeRow) -> ActionRow | None:
    """Return the deletion of a node that is under way, so that asking twice removes one node.

    One that was cancelled ends at its next step boundary without having deleted anything.
    """
    present = actions.unfinished(conn, node_id=node.id)
    return next((a for a in present if a.action == DELETE and a.cancel_reason is None), None)


def remove(  # noqa: PLR0913 - whose part it is, and what it waits for
    ctx: EngineContext,
    conn: Connection,
    node: NodeRow,
    *,
    who: Principal,
    now_us: int,
    parent_id: str = "",
    cause: str = REQUESTED,
    timeout_s: int | None = None,
    inputs: Mapping[str, object] | None = None,
    hook: Hook | None = None,
) -> ActionId:
    """Queue the deletion of a node, or return the one that is under way, now part of the parent.

    `hook`: who is told first, and has to say that it may go on.
    """
    present = deletion_of(conn, node)
    if present is not None:
        # What was put off after a failed attempt is tried again at once: somebody insists.
        actions.set_values(
            conn, present.id, now_us, parent_id=parent_id or present.parent_id, lease_us=0
        )
        return present.id
    holder = stop_others(conn, node, f"{who.user} deletes the node", now_us)
    # Its project's, whoever asks: an administrator's actions on others are theirs to see and cancel.
    who = replace(who, project=node.project, domain=node.domain)
    ident = queue(
        ctx,
        conn,
        action=DELETE,
        who=who,
        target=node.id,
        cluster_id=node.cluster_id,
        node_id=node.id,
        parent_id=parent_id,
        cause=lifecycle_hooks.cause_of(cause, hook),
        inputs={"by": who.user, "was": node.status, **(inputs or {})},
        timeout_s=timeout_s,
        status=_status(holder, hook),
        lock_key=node.id if holder is None else None,
        wake_us=None if hook is None else now_us + hook.timeout_s * 1_000_000,
    )
    going = move(node, NodeEvent.DELETE_BEGUN, f"requested by {who.user}")
    catalog.set_node(conn, node.id, now_us, **going)
    if hook is not None:
        lifecycle_hooks.tell(ctx, conn, ident, node, hook, now_us)
    if holder is None:
        _supersede(ctx, conn, node, f"{who.user} deletes the node", now_us)
    return ident


def _supersede(ctx: EngineContext, conn: Connection, node: NodeRow, why: str, now_us: int) -> None:
    """End the incident of a node that nothing heals any more; a recovery under way ends its own."""
    incident = incidents.open_of(conn, node.id)
    if incident is not None:
        lifecycle.transition(
            ctx, conn, node, incident, IncidentState.SUPERSEDED, reason=why, now_us=now_us
        )


def _status(holder: ActionRow | None, hook: Hook | None) -> str:
    if hook is not None:
        return actions.HOOKED
    return actions.READY if holder is None else actions.WAITING


def stop_others(conn: Connection, node: NodeRow, why: str, now_us: int) -> ActionRow | None:
    """Ask every action on a node to stop; return those that may have begun and still hold it.

    A recovery that is ready has an incident and a budget to settle: its own walk does that.
    """
    for other in actions.unfinished(conn, node_id=node.id):
        actions.cancel(conn, other.id, why, now_us)
        unbegun = other.status == actions.READY and other.incident_id is None
        if unbegun or other.status in {actions.WAITING, actions.HOOKED}:
            actions.end(conn, other.id, now_us, status=actions.CANCELLED, reason=why, outputs={})
            capacity_compensation.give_back(conn, other, now_us)
    return lock_owners.lock_holder(conn, node.id)
