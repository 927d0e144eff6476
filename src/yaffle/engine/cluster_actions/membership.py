"""Transitions that add, remove and replace members of a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from yaffle.core.scaling import sizes
from yaffle.engine.cluster_actions import bound_policies, capacity_compensation
from yaffle.engine.cluster_actions.children import on_node, refuse_busy
from yaffle.engine.cluster_actions.cluster_action import Wait, verdict
from yaffle.engine.cluster_actions.finalize import conclude
from yaffle.engine.cluster_actions.sizing import give_up, resized, sizes_of
from yaffle.errors import BadRequest, NotFound
from yaffle.model.action import ActionKind
from yaffle.model.health import ClusterStatus, NodeStatus
from yaffle.store import catalog

if TYPE_CHECKING:
    from yaffle.engine.cluster_actions.cluster_action import ClusterAction, Transition
    from yaffle.store.rows import NodeRow


GOING: Final = frozenset({NodeStatus.DELETING.value})
"""Counted as gone when their deletion was asked for."""


def found(job: ClusterAction, idents: Sequence[str]) -> list[NodeRow]:
    """Return the nodes of the caller's project that these words name; raise BadRequest for none."""
    rows: list[NodeRow] = []
    missing: list[str] = []
    for ident in idents:
        try:
            rows.append(catalog.find_node(job.conn, ident, job.cluster.project))
        except NotFound:
            missing.append(ident)
    if missing:
        raise BadRequest(f"Nodes not found: {missing}.")
    if len({r.id for r in rows}) < len(rows):
        raise BadRequest("Value for 'nodes' names the same node more than once.")
    return rows


def _resized_by(job: ClusterAction, change: int) -> ClusterAction:
    """Change the desired capacity within the cluster's bounds; raise BadRequest outside them."""
    desired = job.cluster.desired_capacity + change
    fault = sizes.check(sizes_of(job.cluster), desired=desired, ceiling=job.ctx.quotas.nodes)
    if fault is not None:
        raise BadRequest(fault.text)
    return job.set_cluster(desired_capacity=desired)


def _may_join(job: ClusterAction, nodes: Sequence[NodeRow]) -> None:
    """Raise BadRequest unless the nodes are sound orphans of the cluster's profile type."""
    owned = [n.id for n in nodes if n.cluster_id is not None]
    if owned:
        raise BadRequest(f"Nodes {owned} already owned by some cluster.")
    sick = [n.id for n in nodes if n.status != NodeStatus.ACTIVE]
    if sick:
        raise BadRequest(f"Nodes are not ACTIVE: {sick}.")
    kind = catalog.profile(job.conn, job.cluster.profile_id).type
    other = [n.id for n in nodes if catalog.profile(job.conn, n.profile_id).type != kind]
    if other:
        raise BadRequest(f"Profile type of nodes {other} does not match that of the cluster.")


def _are_members(job: ClusterAction, nodes: Sequence[NodeRow]) -> None:
    strangers = [n.id for n in nodes if n.cluster_id != job.cluster.id]
    if strangers:
        raise BadRequest(f"Nodes not members of specified cluster: {strangers}.")


def add(job: ClusterAction) -> Transition:
    """Begin CLUSTER_ADD_NODES."""
    nodes = found(job, _words(job.inputs.get("nodes")))
    _may_join(job, nodes)
    job = _resized_by(job, len(nodes)).show(ClusterStatus.RESIZING)
    for node in nodes:
        on_node(
            job, ActionKind.NODE_JOIN, node, takes_over=True, inputs=capacity_compensation.more()
        )
    return Wait()


def remove(job: ClusterAction) -> Transition:
    """Begin CLUSTER_DEL_NODES; nodes are destroyed only where the request or a policy says so."""
    nodes = found(job, _words(job.inputs.get("nodes")))
    _are_members(job, nodes)
    refuse_busy(nodes, GOING, "removed")
    policy = bound_policies.deletion(job.conn, job.cluster.id)
    reduced = policy is None or policy.reduce_desired_capacity
    if reduced:
        job = _resized_by(job, -len(nodes))
    job = job.show(ClusterStatus.RESIZING)
    said = job.inputs.get("destroy_after_deletion")
    destroy = said if isinstance(said, bool) else None
    if destroy is None and policy is None:
        destroy = False
    return give_up(
        job, [n.id for n in nodes], policy, destroy=destroy, reduced=len(nodes) * reduced
    )


def replace(job: ClusterAction) -> Transition:
    """Begin CLUSTER_REPLACE_NODES: each old node leaves and its new one joins."""
    pairs = job.inputs.get("nodes")
    words = dict(pairs) if isinstance(pairs, Mapping) else {}
    old = found(job, list(map(str, words)))
    new = found(job, list(map(str, words.values())))
    _are_members(job, old)
    refuse_busy(old, GOING, "replaced")
    _may_join(job, new)
    job = job.show(ClusterStatus.UPDATING)
    for node in old:
        on_node(job, ActionKind.NODE_LEAVE, node, takes_over=True)
    for node in new:
        on_node(job, ActionKind.NODE_JOIN, node, takes_over=True)
    return Wait()


def changed(job: ClusterAction) -> Transition:
    """End an action once every node has joined or left."""
    return conclude(job, verdict(job.parts()))


removed = resized
"""What leaves may have a grace period, exactly as what is scaled in."""


def _words(value: object) -> list[str]:
    return list(map(str, value)) if isinstance(value, list) else []
