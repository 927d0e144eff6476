"""Ends a cluster action: the cluster's new status, the event, the action's result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle.core.health.cluster_status import judge
from yaffle.model.health import NodeStatus
from yaffle.store import actions, catalog, events

if TYPE_CHECKING:
    from yaffle.engine.cluster_actions.cluster_action import ClusterAction, Ended


def conclude(job: ClusterAction, ended: Ended) -> Ended:
    """Set the cluster's status, write the end of the action, and return it."""
    well = ended.status == actions.SUCCEEDED
    active = catalog.statuses_of(job.conn, job.cluster.id).get(NodeStatus.ACTIVE.value, 0)
    status, reason = judge(
        active,
        desired=job.cluster.desired_capacity,
        min_size=job.cluster.min_size,
        max_size=job.cluster.max_size,
        operation=job.action.action,
    )
    job.set_cluster(status=status.value, status_reason=reason)
    job.event("end" if well else "error", ended.reason, events.INFO if well else events.ERROR)
    return ended
