"""Transitions that create, update and delete a cluster with its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle.core.scaling import batches
from yaffle.engine.cluster_actions import bound_policies
from yaffle.engine.cluster_actions.children import make_nodes, on_node
from yaffle.engine.cluster_actions.cluster_action import SUCCESS, Ended, Wait, failed, verdict
from yaffle.engine.cluster_actions.enqueue import DERIVED
from yaffle.engine.cluster_actions.finalize import conclude
from yaffle.engine.cluster_actions.member_removal import deletion_of, remove
from yaffle.model.action import ActionKind
from yaffle.model.cluster_policies import BatchPolicy
from yaffle.model.health import ClusterStatus, Health, NodeStatus
from yaffle.model.ids import NodeId
from yaffle.store import actions, catalog, events

if TYPE_CHECKING:
    from yaffle.engine.cluster_actions.cluster_action import ClusterAction, Transition
    from yaffle.store.rows import NodeRow


# --- create ----------------------------------------------------------------------------------


def create(job: ClusterAction) -> Transition:
    """Begin CLUSTER_CREATE: insert the desired nodes."""
    if job.cluster.desired_capacity == 0:
        return created(job)
    make_nodes(job.show(ClusterStatus.CREATING), job.cluster.desired_capacity)
    return Wait()


def created(job: ClusterAction) -> Transition:
    """End CLUSTER_CREATE once every node was made or could not be."""
    job = job.set_cluster(made_us=job.now_us)
    return conclude(job, verdict(job.parts()))


# --- update ----------------------------------------------------------------------------------


def update(job: ClusterAction) -> Transition:
    """Begin CLUSTER_UPDATE: change the cluster's row, then its nodes in batches."""
    inputs = job.inputs
    values = {k: inputs[k] for k in ("name", "metadata", "timeout_s", "config") if k in inputs}
    if "profile_id" in inputs:
        values["profile_id"] = inputs["profile_id"]
    job = job.set_cluster(**values)
    if "profile_id" not in inputs or inputs.get("profile_only"):
        return conclude(job, Ended())
    return _update_batch(job, _batch_policy(job)) or conclude(job, Ended())


def updated(job: ClusterAction) -> Transition:
    """Go on with CLUSTER_UPDATE after a batch, unless it failed."""
    ended = verdict(job.parts())
    if ended.status != actions.SUCCEEDED:
        return conclude(job, ended)
    policy = _batch_policy(job)
    if policy.pause_s and _old_members(job) and not job.action.data.get("rested"):
        return Wait(data={"rested": True}, until_us=job.now_us + policy.pause_s * 1_000_000)
    return _update_batch(job, policy) or conclude(job, ended)


def _batch_policy(job: ClusterAction) -> BatchPolicy:
    """Return the batch policy, or the default.

    A new version may not start: without a policy the cluster's minimum stays in service, and at
    least one node.
    """
    policy = bound_policies.batch(job.conn, job.cluster.id)
    return policy or BatchPolicy(
        version="", min_in_service=max(1, job.cluster.min_size), max_batch_size=-1, pause_s=0
    )


def _old_members(job: ClusterAction) -> list[NodeRow]:
    """Return the members that have yet to be given the cluster's profile."""
    members = catalog.nodes_of(job.conn, job.cluster.id)
    wanted = job.cluster.profile_id
    return [n for n in members if n.profile_id != wanted and n.status != NodeStatus.DELETING]


def _update_batch(job: ClusterAction, policy: BatchPolicy) -> Transition | None:
    """Insert the child actions of the next batch; None where every member has the profile."""
    old = [_member(n) for n in _old_members(job)]
    if not old:
        return None
    members = [_member(n) for n in catalog.nodes_of(job.conn, job.cluster.id)]
    batch = batches.next_update(
        old,
        serving=sum(m.in_service for m in members),
        whole=len(members),
        min_in_service=policy.min_in_service,
        max_batch_size=policy.max_batch_size,
    )
    if not batch:
        serving, must = sum(m.in_service for m in members), policy.min_in_service
        why = f"{len(old)} nodes left as they were: {serving} in service, {must} have to stay"
        return conclude(job, failed(why))
    job = job.show(ClusterStatus.UPDATING)
    for ident in batch:
        node = catalog.node(job.conn, ident)
        assert node is not None  # noqa: S101 - listed in this transaction
        on_node(
            job,
            ActionKind.NODE_UPDATE,
            node,
            takes_over=True,
            inputs={"new_profile_id": str(job.cluster.profile_id)},
        )
    return Wait(data={"rested": False})


def _member(node: NodeRow) -> batches.Member:
    sound = node.status == NodeStatus.ACTIVE and node.health != Health.UNHEALTHY
    return batches.Member(node_id=node.id, index=node.index, in_service=sound and not node.tainted)


# --- delete ----------------------------------------------------------------------------------


def delete(job: ClusterAction) -> Transition:
    """Begin CLUSTER_DELETE: delete every node, in batches where a policy says so."""
    members = catalog.nodes_of(job.conn, job.cluster.id)
    job = job.show(ClusterStatus.DELETING)
    if not members:
        return deleted(job)
    policy = bound_policies.batch(job.conn, job.cluster.id)
    plan = batches.for_delete(
        [_member(n) for n in members],
        max_batch_size=-1 if policy is None else policy.max_batch_size,
    )
    pause_s = 0 if policy is None else policy.pause_s
    return _delete_batch(job, [list(b) for b in plan], pause_s)


def deleted(job: ClusterAction) -> Transition:
    """Go on with CLUSTER_DELETE after a batch: the next one, or the end."""
    plan = job.action.data.get("plan")
    if not isinstance(plan, list) or not plan:
        return left_behind(job, verdict(job.parts()).reason)
    pause_s = job.action.data.get("pause_s")
    seconds = pause_s if isinstance(pause_s, int) else 0
    if seconds and not job.action.data.get("rested"):
        return Wait(data={"rested": True}, until_us=job.now_us + seconds * 1_000_000)
    return _delete_batch(job, plan, seconds)


def _delete_batch(job: ClusterAction, plan: list[list[str]], pause_s: int) -> Transition:
    """Insert the child actions of the first batch, and keep the rest."""
    batch, rest = plan[0], plan[1:]
    for ident in batch:
        node = catalog.node(job.conn, NodeId(ident))
        if node is None or node.cluster_id != job.cluster.id:
            continue
        remove(
            job.ctx,
            job.conn,
            node,
            who=job.who,
            now_us=job.now_us,
            parent_id=job.action.id,
            cause=DERIVED,
            timeout_s=job.action.timeout_s,
        )
    return Wait(data={"plan": rest, "pause_s": pause_s, "rested": False})


def left_behind(job: ClusterAction, why: str, *, cancelled: bool = False) -> Ended:
    """Remove the cluster if it has no node left; else end the action with `why`."""
    left = catalog.nodes_of(job.conn, job.cluster.id)
    if not left:
        job.event("end", SUCCESS)
        catalog.remove_cluster(job.conn, job.cluster.id)
        return Ended()
    ended = Ended(status=actions.CANCELLED, reason=why) if cancelled else failed(why)
    if all(deletion_of(job.conn, node) is not None for node in left):
        # They are tried again until they are done, and the cluster goes with the last of them.
        job.event("error", why, events.ERROR)
        job.set_cluster(status_reason=f"{job.action.action}: {why}; its nodes go on being deleted")
        return ended
    return conclude(job, ended)
