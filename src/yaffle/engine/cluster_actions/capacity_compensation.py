"""Sets the desired capacity when an action begins, and corrects it when the action falls short.

A request changes the desired capacity in its own transaction, before any node comes or goes. Each
part says by how much it was changed on its account; a part that ends without success gives that
back. Otherwise a scale-in that was cancelled would leave a cluster that wants too few, and the next
`check_capacity` would delete healthy nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yaffle.engine.detection.health_persistence import refresh_cluster
from yaffle.model.health import ClusterStatus
from yaffle.store import catalog

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.store.rows import ActionRow

KEY: Final = "capacity"
"""In a part's inputs: by how much the desired capacity was changed for it, 1 or -1."""
PLAN: Final = "remove"
"""In a parent's data: nodes that are to go after a pause, for which there are no parts yet."""


def fewer(*, reduced: bool) -> dict[str, object]:
    """Return the inputs of a child action that lowered the desired capacity by one."""
    return {KEY: -1} if reduced else {}


def more() -> dict[str, object]:
    """Return the inputs of a child action that raised the desired capacity by one."""
    return {KEY: 1}


def give_back(conn: Connection, action: ActionRow, now_us: int) -> None:
    """Undo the change of the desired capacity by an action that did not succeed."""
    change = _changed(action)
    cluster = None if action.cluster_id is None else catalog.cluster(conn, action.cluster_id)
    if not change or cluster is None or cluster.status == ClusterStatus.DELETING:
        return
    wanted = max(0, cluster.desired_capacity - change)
    if cluster.max_size >= 0:
        # Somebody may have lowered the bound meanwhile; it never wants more than it may have.
        wanted = min(wanted, max(cluster.max_size, cluster.desired_capacity))
    catalog.set_cluster(conn, cluster.id, now_us, desired_capacity=wanted)
    refresh_cluster(conn, cluster.id, now_us)


def _changed(action: ActionRow) -> int:
    said = action.inputs.get(KEY)
    mine = said if isinstance(said, int) else 0
    plan = action.data.get(PLAN)
    planned = plan.get("reduced") if isinstance(plan, dict) else 0
    return mine - (planned if isinstance(planned, int) else 0)
