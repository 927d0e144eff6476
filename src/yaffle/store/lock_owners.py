"""Lock owners: the action that holds a node or cluster; a lock is a column of the holder's row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from sqlalchemy import bindparam, select

from yaffle.store.rows import ActionRow, load
from yaffle.store.tables import actions, nodes

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.model.ids import ClusterId, NodeId

_HOLDER: Final = select(actions).where(actions.c.lock_key == bindparam("key"))
_HOLDERS: Final = select(actions).where(actions.c.lock_key.in_(bindparam("keys", expanding=True)))
_LOCKS: Final = (
    select(actions)
    .where(
        actions.c.lock_key.in_(select(nodes.c.id).where(nodes.c.cluster_id == bindparam("ident")))
    )
    .order_by(actions.c.created_us, actions.c.id)
)


def locks_in(conn: Connection, cluster_id: ClusterId) -> Sequence[ActionRow]:
    """Return the actions that hold members of a cluster, whichever cluster they were asked for in."""
    return [load(ActionRow, r) for r in conn.execute(_LOCKS, {"ident": cluster_id})]


def lock_holder(conn: Connection, node_id: NodeId) -> ActionRow | None:
    """Return the action that holds a node's lock."""
    return holder_of(conn, node_id)


def holder_of(conn: Connection, key: str) -> ActionRow | None:
    """Return the action that holds the lock of a node or cluster."""
    row = conn.execute(_HOLDER, {"key": key}).one_or_none()
    return None if row is None else load(ActionRow, row)


def holders_among(conn: Connection, keys: Iterable[str]) -> Mapping[str, ActionRow]:
    """Return the actions that hold any of these locks, by lock."""
    rows = conn.execute(_HOLDERS, {"keys": list(keys)})
    return {str(row.lock_key): load(ActionRow, row) for row in rows}
