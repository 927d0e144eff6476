"""The factory of action rows: name, lock, owner and parent are set here alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from yaffle.core.recovery.node_actions import NODE_ACTIONS
from yaffle.model.action import ActionKind
from yaffle.model.ids import ActionId
from yaffle.store import actions

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.engine.runtime.context import EngineContext
    from yaffle.model.authz import Principal
    from yaffle.model.ids import ClusterId, NodeId
    from yaffle.store.rows import ActionRow

REQUESTED: Final = "RPC Request"
DERIVED: Final = "Derived Action"
DERIVED_HOOKED: Final = "Derived Action with Lifecycle Hook"
HEALTH_POLICY: Final = "Health Policy"
WEBHOOK: Final = "Receiver"
"""Causes, in Senlin's words where it has one."""

NODE_MOVES: Final = frozenset(name for name, kind in NODE_ACTIONS.items() if kind.rows_only)
"""Actions on a node that touch nothing but rows."""


def only_rows(action: ActionRow) -> bool:
    """Whether an action changes rows alone, and never runs a ladder."""
    return action.action in NODE_MOVES or action.action.startswith("CLUSTER_")


_NAMES: Final[Mapping[str, str]] = {
    ActionKind.CLUSTER_ATTACH_POLICY: "attach_policy",
    ActionKind.CLUSTER_DETACH_POLICY: "detach_policy",
    ActionKind.CLUSTER_UPDATE_POLICY: "update_policy",
}


def name_of(action: str, target: str) -> str:
    """Return `cluster_create_1a2b3c4d`, as Senlin names its actions."""
    return f"{_NAMES.get(action, action.lower())}_{target[:8]}"


def queue(  # noqa: PLR0913 - an action has that many parts
    ctx: EngineContext,
    conn: Connection,
    *,
    action: str,
    who: Principal,
    target: str,
    cluster_id: ClusterId | None = None,
    node_id: NodeId | None = None,
    parent_id: str = "",
    cause: str = REQUESTED,
    inputs: Mapping[str, object] | None = None,
    data: Mapping[str, object] | None = None,
    timeout_s: int | None = None,
    status: str = actions.READY,
    status_reason: str = "",
    lock_key: str | None = None,
    wake_us: int | None = None,
) -> ActionId:
    """Insert an action and return its id; `lock_key` is the node or cluster that it holds."""
    ident = ActionId(ctx.new_id())
    actions.add(
        conn,
        {
            "id": ident,
            "name": name_of(action, target),
            "action": action,
            "target": target,
            "cluster_id": cluster_id,
            "node_id": node_id,
            "parent_id": parent_id,
            "cause": cause,
            "status": status,
            "status_reason": status_reason,
            "inputs": dict(inputs or {}),
            "data": dict(data or {}),
            "timeout_s": int(ctx.settings.action_timeout) if timeout_s is None else timeout_s,
            "lock_key": lock_key,
            "wake_us": wake_us,
            "created_us": ctx.clock.now_us(),
            "project": who.project,
            "user": who.user,
            "domain": who.domain,
        },
    )
    return ident
