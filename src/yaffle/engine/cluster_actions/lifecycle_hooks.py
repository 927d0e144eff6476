"""Lifecycle hooks: a deletion waits until an outside party has answered its message.

The token that they answer with is the id of the waiting action. Who never answers is not waited for
longer than the policy says: then the deletion goes on (Senlin's deletion policy 1.1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yaffle.engine.cluster_actions.enqueue import DERIVED_HOOKED
from yaffle.errors import NotFound
from yaffle.model.action import ActionKind
from yaffle.model.ids import ActionId
from yaffle.store import actions, events
from yaffle.store.events import Subject

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.engine.runtime.context import EngineContext
    from yaffle.model.cluster_policies import Hook
    from yaffle.model.ids import ClusterId
    from yaffle.store.rows import NodeRow

NOTIFIER: Final = "lifecycle-hook"
"""The notifier that takes its address from the message; the outbox keeps it until it is accepted."""
TOPIC: Final = "node.termination"
TRANSITION: Final = "termination"


def cause_of(cause: str, hook: Hook | None) -> str:
    """Return the cause of a child action that a hook may delay."""
    return cause if hook is None else DERIVED_HOOKED


def tell(
    ctx: EngineContext, conn: Connection, token: ActionId, node: NodeRow, hook: Hook, now_us: int
) -> None:
    """Write the message to the hook's receiver, in the transaction that makes the action wait."""
    message = {
        "lifecycle_action_token": token,
        "node_id": node.id,
        "physical_id": node.physical_id,
        "cluster_id": node.cluster_id,
        "lifecycle_transition_type": TRANSITION,
    }
    events.append(
        conn,
        Subject(
            otype="NODE",
            oid=node.id,
            oname=node.name,
            cluster_id=node.cluster_id or "",
            node_id=node.id,
            project=node.project,
        ),
        at_us=now_us,
        action=ActionKind.NODE_DELETE,
        status="start",
        reason=f"waits up to {hook.timeout_s} s for its lifecycle hook",
        data=message,
        notify=[(NOTIFIER, TOPIC, {"url": hook.url, "message": message})],
    )


def complete(conn: Connection, cluster_id: ClusterId, token: str, now_us: int) -> ActionId:
    """Resume the action that waits for this token; raise NotFound for any other."""
    found = actions.get(conn, ActionId(token))
    if found is None or found.cluster_id != cluster_id:
        raise NotFound(f"The action '{token}' could not be found.")
    if found.status == actions.HOOKED:
        free = found.lock_key is not None
        actions.set_values(
            conn,
            found.id,
            now_us,
            status=actions.READY if free else actions.WAITING,
            status_reason="the lifecycle hook said that it may go on",
            wake_us=None,
        )
    return found.id
