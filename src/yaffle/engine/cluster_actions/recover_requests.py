"""Recoveries that people ask for: rows that hold the node and wait for the planner to admit them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yaffle.engine.cluster_actions.enqueue import DERIVED, queue
from yaffle.store import actions, lock_owners

if TYPE_CHECKING:
    from yaffle.engine.cluster_actions.cluster_action import ClusterAction
    from yaffle.model.ids import ActionId
    from yaffle.store.rows import NodeRow

PASSED_ON: Final = ("operation", "operation_params", "check", "delete_timeout", "force_recreate")
"""What a cluster's request says to each of its nodes' recoveries."""


def request(job: ClusterAction, node: NodeRow) -> ActionId:
    """Ask for a member to be recovered, as a part; one that is being recovered already becomes it.

    One that something else is being done to is looked at again once that is over.
    """
    holder = lock_owners.lock_holder(job.conn, node.id)
    mine = holder is not None and holder.action == "NODE_RECOVER" and holder.cancel_reason is None
    if holder is not None and mine:
        # Whatever it was a part of has ended: only one action at a time holds the cluster.
        actions.set_values(job.conn, holder.id, job.now_us, parent_id=job.action.id)
        return holder.id
    said = {k: job.inputs[k] for k in PASSED_ON if job.inputs.get(k) is not None}
    if holder is not None:
        said["check"] = True
    return queue(
        job.ctx,
        job.conn,
        action="NODE_RECOVER",
        who=job.who,
        target=node.id,
        cluster_id=job.cluster.id,
        node_id=node.id,
        parent_id=job.action.id,
        cause=DERIVED,
        inputs={"by": job.who.user, **said},
        timeout_s=job.action.timeout_s,
        status=actions.WAITING,
        lock_key=node.id if holder is None else None,
    )
