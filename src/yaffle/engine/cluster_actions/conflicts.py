"""Refuses an action while another one works on the same target, and names that one.

Deletions and operations on a node are let through: the one takes over, the other waits its turn.
Checked in the transaction that inserts the action, so that of two requests one always sees the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yaffle.core.recovery.node_actions import NODE_ACTIONS
from yaffle.engine.cluster_actions.enqueue import HEALTH_POLICY
from yaffle.errors import ActionConflict, ResourceIsLocked
from yaffle.model.action import ActionKind
from yaffle.store import actions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from yaffle.store.rows import ActionRow

UNIMPEDED: Final = {name for name, kind in NODE_ACTIONS.items() if kind.unimpeded} | {
    ActionKind.CLUSTER_DELETE
}


def check(conn: Connection, action: str, kind: str, target: str) -> Sequence[ActionRow]:
    """Raise ResourceIsLocked or ActionConflict if `action` may not be queued now.

    `kind`: cluster or node. Returns the target's unfinished actions for those that take over.
    """
    present = actions.unfinished(conn, target=target)
    if action in UNIMPEDED:
        return present
    begun = [a for a in present if a.status != actions.READY and a.lock_key == target]
    if begun:
        raise ResourceIsLocked(
            f"{action} for {kind} '{target}' cannot be completed because it is already locked.",
            hint=f"{begun[0].action} {begun[0].id} holds it; wait for its end, or cancel it",
        )
    if present:
        idents = ",".join(a.id for a in present)
        raise ActionConflict(
            f"The {action} action for target {target} conflicts with the following action(s):"
            f" {idents}",
            hint="wait for their end, or cancel them",
        )
    return present


def of_health_policy(action: ActionRow) -> bool:
    """Whether a health policy caused the action, so that a user's action takes over (design/state)."""
    return action.cause == HEALTH_POLICY
