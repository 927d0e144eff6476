"""Child actions: nodes to be made, and acts on nodes that may be busy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle.core.scaling import node_names
from yaffle.engine.cluster_actions.cancellation import stop
from yaffle.engine.cluster_actions.enqueue import DERIVED, name_of, queue
from yaffle.errors import BadRequest
from yaffle.model.action import ActionKind
from yaffle.model.ids import ActionId, NodeId
from yaffle.store import actions, catalog, lock_owners
from yaffle.store.rows import ActionRow, NodeRow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from yaffle.engine.cluster_actions.cluster_action import ClusterAction
    from yaffle.engine.runtime.context import EngineContext
    from yaffle.store.rows import ClusterRow


def node_name(ctx: EngineContext, cluster: ClusterRow, index: int) -> str:
    """Return the name of the cluster's node with this index."""
    fmt = cluster.config.get(node_names.KEY)
    pick: Callable[[int], int] = ctx.rng.randrange
    return node_names.render(str(fmt) if fmt else node_names.DEFAULT, index=index, pick=pick)


def make_nodes(job: ClusterAction, count: int) -> ClusterAction:
    """Insert new members and the child actions that make them; return the action with the next index."""
    ctx, cluster, first = job.ctx, job.cluster, job.cluster.next_index
    rows = [
        {
            "id": NodeId(ctx.new_id()),
            "name": node_name(ctx, cluster, index),
            "cluster_id": cluster.id,
            "index": index,
            "profile_id": cluster.profile_id,
            "status_reason": "Initializing",
            "project": cluster.project,
            "user": job.who.user,
            "domain": cluster.domain,
            "init_us": job.now_us,
            "created_us": job.now_us,
        }
        for index in range(first, first + count)
    ]
    if not rows:
        return job
    catalog.add(job.conn, NodeRow, *rows)
    catalog.add(
        job.conn,
        ActionRow,
        *(
            {
                "id": ActionId(ctx.new_id()),
                "name": name_of(ActionKind.NODE_CREATE, str(row["id"])),
                "action": ActionKind.NODE_CREATE,
                "target": row["id"],
                "cluster_id": cluster.id,
                "node_id": row["id"],
                "parent_id": job.action.id,
                "cause": DERIVED,
                "status": actions.READY,
                "timeout_s": job.action.timeout_s,
                "lock_key": row["id"],
                "created_us": job.now_us,
                "project": cluster.project,
                "user": job.who.user,
                "domain": job.who.domain,
            }
            for row in rows
        ),
    )
    return job.set_cluster(next_index=first + count)


def on_node(
    job: ClusterAction,
    action: str,
    node: NodeRow,
    *,
    takes_over: bool,
    inputs: Mapping[str, object] | None = None,
    cause: str = DERIVED,
) -> ActionId:
    """Queue a child action on a node: ready where the node is free, else behind its lock's owner.

    `takes_over`: what holds the node is told to stop at its next step boundary (design/state).
    """
    holder = free(job, node, action) if takes_over else lock_owners.lock_holder(job.conn, node.id)
    return queue(
        job.ctx,
        job.conn,
        action=action,
        who=job.who,
        target=node.id,
        cluster_id=job.cluster.id,
        node_id=node.id,
        parent_id=job.action.id,
        cause=cause,
        inputs=inputs,
        timeout_s=job.action.timeout_s,
        status=actions.READY if holder is None else actions.WAITING,
        lock_key=node.id if holder is None else None,
    )


def free(job: ClusterAction, node: NodeRow, why: str) -> ActionRow | None:
    """Ask every action on a node to stop, except its deletion; return those that still hold it."""
    for other in actions.unfinished(job.conn, node_id=node.id):
        stop(job.conn, other, f"{why} takes the node over", job.now_us, deletions=False)
    return lock_owners.lock_holder(job.conn, node.id)


def refuse_busy(nodes: Sequence[NodeRow], statuses: frozenset[str], what: str) -> None:
    """Raise BadRequest naming the nodes whose status rules `what` out."""
    wrong = [n.id for n in nodes if n.status in statuses]
    if wrong:
        raise BadRequest(f"Nodes {wrong} cannot be {what} in their present status.")
