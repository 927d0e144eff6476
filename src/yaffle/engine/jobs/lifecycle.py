"""A cluster's own life: created with its nodes, changed, deleted with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle.core import batches
from yaffle.engine.jobs import bound
from yaffle.engine.jobs.ending import conclude
from yaffle.engine.jobs.job import SUCCESS, Ended, Wait, failed, verdict
from yaffle.engine.jobs.parts import make_nodes, on_node
from yaffle.engine.jobs.removal import remove
from yaffle.engine.jobs.rows import DERIVED
from yaffle.model.cluster_policies import BatchPolicy
from yaffle.model.health import ClusterStatus, Health, NodeStatus
from yaffle.store import actions, catalog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaffle.engine.jobs.job import Job, Move
    from yaffle.store.records import NodeRow


# --- create ----------------------------------------------------------------------------------


def create(job: Job) -> Move:
    """Insert the nodes that the cluster wants."""
    if job.cluster.desired_capacity == 0:
        return created(job)
    make_nodes(job.show(ClusterStatus.CREATING), job.cluster.desired_capacity)
    return Wait()


def created(job: Job) -> Move:
    """Every node was made or could not be."""
    job = job.set_cluster(made_us=job.now_us)
    return conclude(job, verdict(job.parts()))


# --- update ----------------------------------------------------------------------------------


def update(job: Job) -> Move:
    """Change what needs no node; then node by node what does, in batches."""
    inputs = job.inputs
    values = {k: inputs[k] for k in ("name", "metadata", "timeout_s", "config") if k in inputs}
    if "profile_id" in inputs:
        values["profile_id"] = inputs["profile_id"]
    job = job.set_cluster(**values)
    if "profile_id" not in inputs or inputs.get("profile_only"):
        return conclude(job, Ended())
    members = catalog.nodes_of(job.conn, job.cluster.id)
    plan = _update_plan(job, [n for n in members if n.profile_id != inputs["profile_id"]])
    if not plan:
        return conclude(job, Ended())
    job = job.show(ClusterStatus.UPDATING)
    return _next_batch(job, plan, _pause_s(job))


def updated(job: Job) -> Move:
    """A batch is over: the next one, unless the last one went wrong."""
    return _went_on(job)


def _update_plan(job: Job, members: Sequence[NodeRow]) -> list[list[str]]:
    policy = bound.batch(job.conn, job.cluster.id)
    if policy is None:
        # A new version may not start; without a policy the cluster's minimum stays in service.
        policy = BatchPolicy(
            version="", min_in_service=max(1, job.cluster.min_size), max_batch_size=-1, pause_s=0
        )
    plan = batches.for_update(
        [_member(n) for n in members],
        min_in_service=policy.min_in_service,
        max_batch_size=policy.max_batch_size,
    )
    return [list(batch) for batch in plan]


def _member(node: NodeRow) -> batches.Member:
    sound = node.status == NodeStatus.ACTIVE and node.health != Health.UNHEALTHY
    return batches.Member(node_id=node.id, index=node.index, in_service=sound and not node.tainted)


def _pause_s(job: Job) -> int:
    policy = bound.batch(job.conn, job.cluster.id)
    return 0 if policy is None else policy.pause_s


# --- delete ----------------------------------------------------------------------------------


def delete(job: Job) -> Move:
    """Delete every node, in batches where a policy says so; the cluster goes with the last one."""
    members = catalog.nodes_of(job.conn, job.cluster.id)
    job = job.show(ClusterStatus.DELETING)
    if not members:
        return deleted(job)
    policy = bound.batch(job.conn, job.cluster.id)
    plan = batches.for_delete(
        [_member(n) for n in members],
        max_batch_size=-1 if policy is None else policy.max_batch_size,
    )
    return _next_batch(job, [list(b) for b in plan], 0 if policy is None else policy.pause_s)


def deleted(job: Job) -> Move:
    """A batch is over: the next one, or the cluster itself."""
    if job.action.data.get("plan"):
        return _went_on(job, whatever=True)
    left = catalog.nodes_of(job.conn, job.cluster.id)
    if left:
        # Their deletions are tried again for ever, and the cluster goes with the last of them.
        ended = verdict(job.parts())
        job.event("error", ended.reason)
        return failed(ended.reason)
    job.event("end", SUCCESS)
    catalog.remove_cluster(job.conn, job.cluster.id)
    return Ended()


# --- batches ---------------------------------------------------------------------------------


def _next_batch(job: Job, plan: list[list[str]], pause_s: int) -> Move:
    """Insert the parts of the first batch; the rest is remembered."""
    batch, rest = plan[0], plan[1:]
    for ident in batch:
        node = catalog.node(job.conn, ident)  # type: ignore[arg-type]
        if node is None or node.cluster_id != job.cluster.id:
            continue
        if job.action.action == "CLUSTER_DELETE":
            remove(
                job.kit,
                job.conn,
                node,
                who=job.who,
                now_us=job.now_us,
                parent_id=job.action.id,
                cause=DERIVED,
                timeout_s=job.action.timeout_s,
            )
        else:
            on_node(
                job,
                "NODE_UPDATE",
                node,
                takes_over=True,
                inputs={"new_profile_id": str(job.cluster.profile_id)},
            )
    return Wait(data={"plan": rest, "pause_s": pause_s, "rested": False})


def _went_on(job: Job, *, whatever: bool = False) -> Move:
    """Go on with the next batch after the pause; `whatever`: also when one went wrong."""
    ended = verdict(job.parts())
    plan = job.action.data.get("plan")
    if (
        not isinstance(plan, list)
        or not plan
        or (ended.status != actions.SUCCEEDED and not whatever)
    ):
        return conclude(job, ended)
    pause_s = job.action.data.get("pause_s")
    seconds = pause_s if isinstance(pause_s, int) else 0
    if seconds and not job.action.data.get("rested"):
        return Wait(data={"rested": True}, until_us=job.now_us + seconds * 1_000_000)
    return _next_batch(job, plan, seconds)
