"""Transitions that resize, scale out and scale in, with the policies that decide over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from yaffle.core.scaling import scale_in_selection, sizes
from yaffle.core.scaling.scaling_policy import Cooling, Scaled, propose
from yaffle.core.scaling.sizes import Fault, Sizes
from yaffle.engine.cluster_actions import bound_policies, capacity_compensation
from yaffle.engine.cluster_actions.children import make_nodes, on_node
from yaffle.engine.cluster_actions.cluster_action import Ended, Wait, verdict
from yaffle.engine.cluster_actions.enqueue import DERIVED
from yaffle.engine.cluster_actions.finalize import conclude
from yaffle.engine.cluster_actions.member_removal import deletion_of, remove
from yaffle.errors import ActionCooldown, BadRequest
from yaffle.model.action import ActionKind
from yaffle.model.cluster_policies import AdjustmentType, Criteria, ScalingEvent, ScalingPolicy
from yaffle.model.health import ClusterStatus, Health, NodeStatus
from yaffle.model.ids import NodeId
from yaffle.store import actions, catalog
from yaffle.store.rows import BindingRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaffle.engine.cluster_actions.cluster_action import ClusterAction, Transition
    from yaffle.model.cluster_policies import DeletionPolicy
    from yaffle.store.rows import ClusterRow, NodeRow


SCALINGS: Final = frozenset(ScalingEvent)
"""Only after these a cool-down begins; a resize, and naming the nodes, is somebody's own decision."""


def sizes_of(cluster: ClusterRow) -> Sizes:
    """Return the cluster's sizes as the arithmetic wants them."""
    return Sizes(
        desired=cluster.desired_capacity, min_size=cluster.min_size, max_size=cluster.max_size
    )


def accepted(result: Sizes | Fault) -> Sizes:
    """Return the sizes, or raise the fault as the caller's."""
    if isinstance(result, Fault):
        raise BadRequest(result.text)
    return result


# --- resize ----------------------------------------------------------------------------------


def resize(job: ClusterAction) -> Transition:
    """Begin CLUSTER_RESIZE; the arithmetic is `core.scaling.sizes`."""
    wanted = {k: v for k, v in job.inputs.items() if v is not None}
    after = accepted(sizes.resize(sizes_of(job.cluster), **wanted, ceiling=job.ctx.quotas.nodes))  # type: ignore[arg-type]
    job = job.set_cluster(min_size=after.min_size, max_size=after.max_size)
    exact = wanted.get("adjustment_type") == AdjustmentType.EXACT_CAPACITY
    return _grow_or_shrink(job, after.desired - job.cluster.desired_capacity, exact=exact)


# --- scale -----------------------------------------------------------------------------------


def scale_out(job: ClusterAction) -> Transition:
    """Begin CLUSTER_SCALE_OUT: as many nodes as asked for, or as the scaling policy says."""
    return _grow_or_shrink(job, _scaled(job, ScalingEvent.CLUSTER_SCALE_OUT))


def scale_in(job: ClusterAction) -> Transition:
    """Begin CLUSTER_SCALE_IN: as many nodes as asked for, or as the scaling policy says."""
    return _grow_or_shrink(job, -_scaled(job, ScalingEvent.CLUSTER_SCALE_IN))


def _scaled(job: ClusterAction, event: ScalingEvent) -> int:
    """Return the number of nodes to add or remove; each scaling policy of the event must allow it."""
    given = job.inputs.get("count")
    wanted = given if isinstance(given, int) else None
    before = sizes_of(job.cluster)
    if wanted is not None and wanted <= 0:
        accepted(sizes.scale(before, wanted, event, ceiling=job.ctx.quotas.nodes))
    count: int | None = None
    for policy, said in bound_policies.of_kind(job.conn, job.cluster.id, ScalingPolicy):
        if said.event is not event:
            continue
        last_us = policy.binding.last_op_us
        answer = propose(
            said,
            before,
            wanted=wanted,
            last_op_us=last_us,
            now_us=job.now_us,
            ceiling=job.ctx.quotas.nodes,
        )
        match answer:
            case Cooling(until_us=until_us):
                left_s = (until_us - job.now_us) / 1e6
                raise ActionCooldown(
                    f"The {event} action for cluster {job.cluster.id} cannot be processed due to"
                    f" Policy {policy.row.id} cooldown still in progress",
                    hint=f"{left_s:.0f} s are left of it",
                )
            case Fault(text=text):
                raise BadRequest(text)
            case Scaled(count=proposed):
                count = proposed if count is None else min(count, proposed)
    if count is None:
        after = accepted(sizes.scale(before, wanted, event, ceiling=job.ctx.quotas.nodes))
        count = abs(after.desired - before.desired)
    return count


def _stamp(job: ClusterAction) -> None:
    """Start the cool-down of every scaling policy."""
    for policy, _ in bound_policies.of_kind(job.conn, job.cluster.id, ScalingPolicy):
        catalog.change(job.conn, BindingRow, policy.binding.id, last_op_us=job.now_us)


# --- both ------------------------------------------------------------------------------------


def _grow_or_shrink(job: ClusterAction, change: int, *, exact: bool = False) -> Transition:
    """Set the desired capacity, and make or remove as many nodes as that takes.

    How many there are may differ from how many were wanted: after a failure, or a cancel. Never more
    are removed than was asked for, unless somebody named the `exact` number.
    """
    wanted = job.cluster.desired_capacity + change
    surplus = len(_staying(job)) - wanted
    if change == 0 and not (exact and surplus):
        return conclude(job, Ended())
    job = job.show(ClusterStatus.RESIZING)
    if change > 0 or (exact and surplus < 0):
        job = job.set_cluster(desired_capacity=wanted)
        make_nodes(job, max(0, -surplus))
    if surplus <= 0 and change >= 0:
        return Wait()
    policy = bound_policies.deletion(job.conn, job.cluster.id)
    if policy is not None and not policy.reduce_desired_capacity:
        return give_up(job, chosen(job, max(0, -change), policy), policy, reduced=0)
    job = job.set_cluster(desired_capacity=wanted)
    count = max(0, surplus if exact else min(surplus, -change))
    return give_up(job, chosen(job, count, policy), policy, reduced=max(0, -change))


def chosen(job: ClusterAction, count: int, policy: DeletionPolicy | None) -> list[str]:
    """Return the nodes to remove, in order."""
    members = _staying(job)
    profiles = {p: catalog.profile(job.conn, p) for p in {n.profile_id for n in members}}
    order = scale_in_selection.choose(
        [_candidate(n, profiles[n.profile_id].created_us) for n in members],
        count,
        criteria=Criteria.OLDEST_FIRST if policy is None else policy.criteria,
        pick=job.ctx.rng.randrange,
    )
    return [str(i) for i in order]


def _staying(job: ClusterAction) -> list[NodeRow]:
    """Return the members that nobody has asked to delete."""
    members = catalog.nodes_of(job.conn, job.cluster.id)
    return [n for n in members if n.status != NodeStatus.DELETING]


def _candidate(node: NodeRow, profile_us: int) -> scale_in_selection.Candidate:
    return scale_in_selection.Candidate(
        node_id=node.id,
        index=node.index,
        status=NodeStatus(node.status),
        health=Health(node.health),
        tainted=node.tainted,
        created_us=node.created_us,
        made_us=node.made_us,
        profile_created_us=profile_us,
        name=node.name,
    )


def give_up(
    job: ClusterAction,
    idents: Sequence[str],
    policy: DeletionPolicy | None,
    *,
    destroy: bool | None = None,
    reduced: int,
) -> Wait:
    """Remove these nodes, after the policy's grace period; `destroy`: what the request said.

    `reduced`: for how many of them, from the first, the cluster wants one less.
    """
    gone = destroy if destroy is not None else policy is None or policy.destroy_after_deletion
    plan = Plan(idents=tuple(idents), destroy=gone, reduced=min(reduced, len(idents)))
    if policy is not None and policy.grace_period_s:
        return Wait(
            data={capacity_compensation.PLAN: plan.as_json()},
            until_us=job.now_us + policy.grace_period_s * 1_000_000,
        )
    return _removed(job, plan, policy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The nodes to remove, and whether they are destroyed or only leave."""

    idents: tuple[str, ...]
    destroy: bool
    reduced: int
    """For how many, from the first, the cluster wants one less."""

    def as_json(self) -> dict[str, object]:
        """Return what `of` reads again."""
        return {"nodes": list(self.idents), "destroy": self.destroy, "reduced": self.reduced}

    @classmethod
    def of(cls, value: object) -> Plan | None:
        """Return the plan in an action's `data`; None where there is none."""
        if not isinstance(value, dict) or not isinstance(value.get("nodes"), list):
            return None
        return cls(
            idents=tuple(map(str, value["nodes"])),
            destroy=bool(value.get("destroy")),
            reduced=int(value.get("reduced") or 0),
        )


def _removed(job: ClusterAction, plan: Plan, policy: DeletionPolicy | None) -> Wait:
    """Insert the child actions that remove the nodes."""
    for place, ident in enumerate(plan.idents):
        node = catalog.node(job.conn, NodeId(ident))
        if node is None or node.cluster_id != job.cluster.id:
            continue
        said = capacity_compensation.fewer(reduced=place < plan.reduced)
        if not plan.destroy:
            on_node(job, ActionKind.NODE_LEAVE, node, takes_over=True, inputs=said)
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
            inputs=said,
            hook=None if policy is None else policy.hook,
        )
    hook = None if policy is None else policy.hook
    return Wait(
        data={capacity_compensation.PLAN: None},
        more_s=hook.timeout_s if hook and plan.destroy else 0,
    )


def _counted_once(job: ClusterAction, plan: Plan) -> ClusterAction:
    """Want one node more for each that somebody else took away during the grace period.

    It was counted as gone twice: when it was chosen, and by whoever deleted it.
    """
    nodes = [catalog.node(job.conn, NodeId(i)) for i in plan.idents[: plan.reduced]]
    twice = sum(n is None or deletion_of(job.conn, n) is not None for n in nodes)
    if not twice:
        return job
    return job.set_cluster(desired_capacity=job.cluster.desired_capacity + twice)


def rest_of_removal(job: ClusterAction) -> Wait | None:
    """Return what follows a grace period; None where none was waited for."""
    plan = Plan.of(job.action.data.get(capacity_compensation.PLAN))
    if plan is None:
        return None
    policy = bound_policies.deletion(job.conn, job.cluster.id)
    return _removed(_counted_once(job, plan), plan, policy)


def resized(job: ClusterAction) -> Transition:
    """Go on after the grace period, or end once every child action has."""
    going = rest_of_removal(job)
    if going is not None:
        return going
    ended = verdict(job.parts())
    if ended.status == actions.SUCCEEDED and job.action.action in SCALINGS:
        _stamp(job)
    return conclude(job, ended)
