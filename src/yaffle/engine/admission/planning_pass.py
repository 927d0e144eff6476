"""The planning transaction: plans one cluster and admits what may act.

Everything the planner looks at that others may change (pauses, locks, retry budgets, releases,
shared budgets) is read in the transaction that inserts the action. So "stop" that was answered is
obeyed by every admission after it, and two recoveries can never spend the same token. A read that
fails raises, the transaction is gone and nothing is admitted: we fail closed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from yaffle.core.decision_audit.capture import Pass
from yaffle.core.health import diagnosis
from yaffle.core.health.node_lifecycle import WATCHED
from yaffle.core.health.verdict import conclude
from yaffle.core.planning import retry
from yaffle.core.planning.cluster_view import ClusterView, NodeView
from yaffle.core.planning.observer_partition import is_blind
from yaffle.core.planning.planner import candidates, plan, wake_of
from yaffle.core.recovery.ladder import helpless
from yaffle.engine.action_inputs import target_mapping
from yaffle.engine.action_inputs.default_policy import unread
from yaffle.engine.action_inputs.recover_requests import REQUEST_S, expires_us
from yaffle.engine.admission.decision_writer import DecisionWriter, Inputs, Told
from yaffle.engine.cluster_actions.table import disturbs
from yaffle.engine.detection.cluster_snapshot import policy_of, watched_rows
from yaffle.engine.detection.health_persistence import outdated, verified_since
from yaffle.engine.incidents import host_incident
from yaffle.engine.runtime.pauses import over_nodes
from yaffle.errors import StaleEpoch
from yaffle.model.action import ActionKind
from yaffle.model.health import ClusterStatus, Health
from yaffle.model.ids import NodeId
from yaffle.model.incident import Decision
from yaffle.model.operations import Promise
from yaffle.store import actions, budgets, catalog, leases, lock_owners, pauses

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.core.health.verdict import NodeMemory
    from yaffle.engine.runtime.context import EngineContext
    from yaffle.engine.runtime.session import Session
    from yaffle.store.rows import ActionRow, NodeRow

UNREAD = "the cluster's health policy, which this engine cannot read"
WRITTEN_MAX = 50
"""Decisions that one transaction writes; a thousand would keep the lease from being renewed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one planning transaction."""

    told: Told
    admitted: int
    wake_us: int | None
    more: bool
    """Whether decisions were left for the next pass, because this one had written enough."""


NOTHING = Outcome(told={}, admitted=0, wake_us=None, more=False)


def decide(ctx: EngineContext, session: Session, conn: Connection, inputs: Inputs) -> Outcome:
    """Plan the cluster and write the decisions as rows; raise StaleEpoch if it is not ours."""
    if not leases.holds_watch(conn, session.me, session.epoch, inputs.cluster.id):
        raise StaleEpoch(f"our lease on cluster {inputs.cluster.name} is over")
    cluster = catalog.cluster(conn, inputs.cluster.id)
    if cluster is None or cluster.status == ClusterStatus.DELETING:
        return NOTHING
    if policy_of(ctx, conn, cluster.id) != (inputs.policy, inputs.policy_id):
        return replace(NOTHING, more=True)  # the watch reads the new one first
    inputs = replace(inputs, cluster=cluster)
    now_us = ctx.clock.now_us()
    rows = watched_rows(conn, cluster.id, inputs.known, inputs.versions)
    locks = {
        a.node_id: a
        for a in lock_owners.locks_in(conn, inputs.cluster.id)
        if a.node_id is not None and a.lock_key is not None
    }
    _expire_requests(conn, locks, now_us)
    inputs = replace(inputs, memories=_as_of_now(inputs, locks, now_us))
    view = build_view(ctx, conn, inputs, rows, locks, now_us)
    made_from = Pass(
        view=view,
        policy=inputs.policy,
        policy_id=inputs.policy_id,
        sights=inputs.sights,
        limits=ctx.budgets,
        now_us=now_us,
    )
    writer = DecisionWriter(ctx, conn, inputs, rows, locks, made_from)
    more, decisions = False, list[Decision]()
    drawn_on = (key for node in candidates(view) for key in node.draws_on)
    shared = budgets.read(conn, drawn_on, ctx.budgets, now_us)
    for planned in plan(view, shared, now_us):
        writer.apply(planned)
        decisions.append(planned.decision)
        if writer.written >= WRITTEN_MAX:
            more = True
            break
    return Outcome(
        told=writer.told,
        admitted=writer.admitted,
        wake_us=wake_of(decisions),
        more=more,
    )


def _as_of_now(
    inputs: Inputs, locks: Mapping[NodeId, ActionRow], now_us: int
) -> Mapping[NodeId, NodeMemory]:
    """Apply the time that has passed since the watcher handed over its health states.

    Bearings were taken and a turn to write was waited for: a verdict that rested on observations
    which are too old by now is none.
    """
    concerned = (
        i for i, m in inputs.memories.items() if m.health is Health.UNHEALTHY or i in locks
    )
    detection = inputs.policy.detection
    fresh = {i: conclude(inputs.memories[i], detection, now_us) for i in concerned}
    return {**inputs.memories, **fresh}


def _expire_requests(conn: Connection, locks: dict[NodeId, ActionRow], now_us: int) -> None:
    """End requests that were held for too long."""
    for node_id, lock in list(locks.items()):
        until_us = expires_us(lock)
        if until_us is not None and now_us > until_us:
            actions.end(
                conn,
                lock.id,
                now_us,
                status=actions.FAILED,
                reason=f"not begun within {REQUEST_S} s ({lock.status_reason}); ask again",
                outputs={},
            )
            del locks[node_id]


def build_view(
    ctx: EngineContext,
    conn: Connection,
    inputs: Inputs,
    rows: Mapping[NodeId, NodeRow],
    locks: Mapping[NodeId, ActionRow],
    now_us: int,
) -> ClusterView:
    """Return the cluster as the planner sees it."""
    work = _users_work(conn, inputs)
    lost = host_incident.lost_hosts(conn, inputs.hosts)
    watched = [r for r in rows.values() if r.status in WATCHED and r.id in inputs.memories]
    return ClusterView(
        cluster_id=inputs.cluster.id,
        name=inputs.cluster.name,
        desired_capacity=inputs.cluster.desired_capacity,
        nodes=tuple(
            _node_view(ctx, conn, inputs, row, locks.get(row.id), work, lost, now_us)
            for row in watched
        ),
        recovery=inputs.policy.recovery,
        pauses=tuple(over_nodes(pauses.in_force(conn, now_us), watched)),
        released_until_us=pauses.released_until(conn, inputs.cluster.id),
        blind=inputs.sights.whole if is_blind(inputs.sights.whole) else None,
        # They are counted only where a failure may be that of one of them.
        hosts=len({name for row in watched if (name := target_mapping.host_of(row))})
        if inputs.hosts
        else 0,
        lost=(*inputs.lost, *_missing(ctx, conn, inputs)),
    )


def _missing(ctx: EngineContext, conn: Connection, inputs: Inputs) -> tuple[str, ...]:
    """Return what this engine lacks to heal the nodes of the cluster."""
    kind = catalog.profile(conn, inputs.cluster.profile_id).type
    policy = UNREAD if unread(inputs.policy, inputs.policy_id) else ""
    return tuple(what for what in (policy, ctx.lacks(kind)) if what)


def _users_work(conn: Connection, inputs: Inputs) -> str:
    """Return the user's action on the cluster during which nothing is healed; empty for none.

    Derived from what is under way, never a flag that a crash could leave behind
    (contracts/health-policy#what-yaffle-settles).
    """
    holder = lock_owners.holder_of(conn, inputs.cluster.id)
    return holder.action if holder is not None and disturbs(holder) else ""


def _node_view(
    ctx: EngineContext,
    conn: Connection,
    inputs: Inputs,
    row: NodeRow,
    lock: ActionRow | None,
    work: str,
    lost: frozenset[str],
    now_us: int,
) -> NodeView:
    memory = inputs.memories[row.id]
    requested = lock is not None and lock.status == actions.WAITING
    recovering = lock is not None and not requested and lock.action == ActionKind.NODE_RECOVER
    domain = inputs.policy.recovery.limits.domain
    healthy_us = row.healthy_us if memory.health is Health.HEALTHY else None
    state = target_mapping.retry_of(row)
    fresh = retry.stable(state, inputs.policy.recovery.retry, healthy_us, now_us)
    if fresh != state:
        catalog.set_node(conn, row.id, now_us, attempts=0, next_attempt_us=None)
    sight = inputs.sights.of(memory)
    return NodeView(
        node_id=row.id,
        name=row.name,
        health=memory.health,
        settled=memory.settled,
        busy="" if requested else work if lock is None else lock.action,
        recovering=recovering,
        domain=str(row.attributes.get(domain, "")) if domain else "",
        retry=fresh,
        marked=memory.mark is not None,
        host=host_incident.host_report_of(row, memory, inputs.hosts, lost)
        if recovering or memory.health in {Health.UNHEALTHY, Health.SUSPECT}
        else None,
        blind=sight if is_blind(sight) else None,
        requested_by=str(lock.inputs.get("by", "a person")) if requested and lock else "",
        # Of nodes that are well nothing is wrong; a cluster has a thousand of them.
        problem="" if memory.health is Health.HEALTHY else diagnosis.diagnose(memory).code,
        left_out=_left_out(ctx, conn, inputs, row, memory),
        outdated=outdated(inputs.known.get(row.id), row) or verified_since(row, memory, now_us),
        draws_on=budgets.keys_of(row, domain)
        if requested or memory.health is Health.UNHEALTHY
        else (),
    )


def _left_out(
    ctx: EngineContext, conn: Connection, inputs: Inputs, row: NodeRow, memory: NodeMemory
) -> tuple[str, ...]:
    """Return the rungs that cannot help a node whose copy is gone for good."""
    if memory.health is not Health.UNHEALTHY or not diagnosis.is_gone(memory):
        return ()
    driver = ctx.drivers.profiles.get(catalog.profile(conn, row.profile_id).type)
    if driver is None or Promise.GONE_FOR_GOOD not in driver.promises:
        return ()
    return helpless(inputs.policy.recovery.actions)
