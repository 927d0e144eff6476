"""Transitions that check, recover and operate the members of a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from yaffle.engine.action_inputs.policy_snapshot import PolicySnapshot
from yaffle.engine.action_inputs.template_context import recover_action
from yaffle.engine.cluster_actions import bound_policies
from yaffle.engine.cluster_actions.children import make_nodes, on_node
from yaffle.engine.cluster_actions.cluster_action import Ended, Wait, verdict
from yaffle.engine.cluster_actions.enqueue import DERIVED, queue
from yaffle.engine.cluster_actions.finalize import conclude
from yaffle.engine.cluster_actions.sizing import chosen, give_up, rest_of_removal
from yaffle.engine.detection.cluster_snapshot import in_place_names, policy_of
from yaffle.errors import BadRequest
from yaffle.model.action import ActionKind
from yaffle.model.health import ClusterStatus, Health, NodeStatus
from yaffle.store import actions, catalog, lock_owners

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaffle.engine.cluster_actions.cluster_action import ClusterAction, Transition
    from yaffle.model.ids import ActionId
    from yaffle.store.rows import ActionRow, NodeRow

PASSED_ON: Final = ("operation", "operation_params", "check", "delete_timeout", "force_recreate")
"""What a cluster's request says to each of its nodes' recoveries."""
UNTOUCHABLE: Final = frozenset({NodeStatus.DELETING.value})


def _members(job: ClusterAction) -> list[NodeRow]:
    members = catalog.nodes_of(job.conn, job.cluster.id)
    return [n for n in members if n.status not in UNTOUCHABLE]


# --- check -----------------------------------------------------------------------------------


def check(job: ClusterAction) -> Transition:
    """Begin CLUSTER_CHECK: check every member once."""
    return _looked_at(job.show(ClusterStatus.CHECKING)) or conclude(job, Ended())


def _looked_at(job: ClusterAction) -> Wait | None:
    members = _members(job)
    for node in members:
        on_node(job, ActionKind.NODE_CHECK, node, takes_over=False)
    return Wait(data={"phase": "check"}) if members else None


def checked(job: ClusterAction) -> Transition:
    """End CLUSTER_CHECK; an unhealthy member is a result, not a failure of the check."""
    if job.inputs.get("delete_check_action"):
        actions.remove_parts(job.conn, job.action.id)
    return conclude(job, Ended())


# --- recover ---------------------------------------------------------------------------------


def recover(job: ClusterAction) -> Transition:
    """Begin CLUSTER_RECOVER: check if asked, recover unhealthy members, then restore the capacity."""
    job = job.show(ClusterStatus.RECOVERING)
    policy, _ = policy_of(job.ctx, job.conn, job.cluster.id)
    merged = PolicySnapshot.of(policy, job.inputs, in_place=in_place_names(job.ctx))
    said = {"health": {"recover_action": recover_action(merged.recovery.actions, {})}}
    actions.set_values(job.conn, job.action.id, job.now_us, data=said)
    waiting = _looked_at(job) if job.inputs.get("check") else None
    move = waiting or _recover_sick(job)
    return replace(move, data={**said, **move.data}) if isinstance(move, Wait) else move


def _recover_sick(job: ClusterAction) -> Transition:
    sick = [n for n in _members(job) if is_sick(n)]
    for node in sick:
        _request_recovery(job, node)
    return Wait(data={"phase": "recover"}) if sick else _fill(job, Ended())


def _request_recovery(job: ClusterAction, node: NodeRow) -> ActionId:
    """Ask for a member to be recovered, as a part; one that is being recovered already becomes it.

    One that something else is being done to is looked at again once that is over.
    """
    holder = lock_owners.lock_holder(job.conn, node.id)
    mine = (
        holder is not None
        and holder.action == ActionKind.NODE_RECOVER
        and holder.cancel_reason is None
    )
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
        action=ActionKind.NODE_RECOVER,
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


def is_sick(node: NodeRow) -> bool:
    """Whether CLUSTER_RECOVER is about this node (contracts/health-policy#what-yaffle-settles).

    Not about one that is down because somebody wants it so: whoever wants that one back names it.
    """
    if node.left_as_it_is:
        return False
    return node.status != NodeStatus.ACTIVE or node.health == Health.UNHEALTHY


def recovered(job: ClusterAction) -> Transition:
    """Go on with CLUSTER_RECOVER after a phase."""
    match job.action.data.get("phase"):
        case "check":
            return _recover_sick(job)
        case "recover":
            return _fill(job, verdict(_of(job, ActionKind.NODE_RECOVER)))
        case _:
            parts = [p for p in job.parts() if p.action != ActionKind.NODE_CHECK]
            return rest_of_removal(job) or conclude(job, verdict(parts))


def _of(job: ClusterAction, action: str) -> Sequence[ActionRow]:
    return [p for p in job.parts() if p.action == action]


def _fill(job: ClusterAction, ended: Ended) -> Transition:
    """`check_capacity`: bring the number of members to what the cluster wants."""
    change = job.cluster.desired_capacity - len(_members(job))
    if not job.inputs.get("check_capacity") or change == 0:
        return conclude(job, ended)
    if change > 0:
        make_nodes(job, change)
        return Wait(data={"phase": "capacity"})
    policy = bound_policies.deletion(job.conn, job.cluster.id)
    move = give_up(job, chosen(job, -change, policy), policy, reduced=0)
    return replace(move, data={**move.data, "phase": "capacity"})


# --- operation -------------------------------------------------------------------------------

FILTERS: Final = ("name", "profile_id", "status", "role")


def operate(job: ClusterAction) -> Transition:
    """Begin CLUSTER_OPERATION: run an operation on the matching members."""
    members = [n for n in _members(job) if _matches(job, n)]
    if not members:
        raise BadRequest("No node (matching the filter) could be found.")
    job = job.show(ClusterStatus.OPERATING)
    for node in members:
        on_node(
            job,
            ActionKind.NODE_OPERATION,
            node,
            takes_over=False,
            inputs={
                "operation": job.inputs.get("operation"),
                "params": job.inputs.get("params") or {},
            },
        )
    return Wait()


def _matches(job: ClusterAction, node: NodeRow) -> bool:
    filters = job.inputs.get("filters")
    if not isinstance(filters, Mapping):
        return True
    return all(str(getattr(node, key)) == str(value) for key, value in filters.items())


def operated(job: ClusterAction) -> Transition:
    """End CLUSTER_OPERATION once every node has done it, or could not."""
    return conclude(job, verdict(job.parts()))
