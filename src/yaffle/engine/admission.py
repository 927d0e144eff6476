"""One transaction in which a cluster is planned and what may act is admitted.

Everything the planner looks at that others may change (pauses, locks, retry budgets, releases,
shared budgets) is read in the transaction that inserts the action. So "stop" that was answered is
obeyed by every admission after it, and two recoveries can never spend the same token. A read that
fails raises, the transaction is gone and nothing is admitted: we fail closed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from yaffle.core import problems, retry
from yaffle.core.budgets import Refusal
from yaffle.core.planner import bucket, plan
from yaffle.core.view import ClusterView, NodeView
from yaffle.engine import news, spending, targets
from yaffle.engine.naming import names_of, recover_action
from yaffle.engine.saving import outdated
from yaffle.engine.scene import in_place_names, policy_of
from yaffle.engine.snapshot import Snapshot, pack
from yaffle.errors import StaleEpoch
from yaffle.model.health import ClusterStatus, Health, NodeStatus
from yaffle.model.ids import ActionId, NodeId
from yaffle.model.incident import Hold, HoldReason, IncidentState, Recover
from yaffle.store import actions, catalog, incidents, leases, pauses

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.core.blindness import Blindness
    from yaffle.core.verdict import NodeMemory
    from yaffle.engine.kit import Kit
    from yaffle.engine.session import Session
    from yaffle.model.policy import HealthPolicy
    from yaffle.store.records import ActionRow, ClusterRow, IncidentRow, NodeRow

REQUEST_S = 900
"""A person's request that could not be admitted for so long is dropped, and says so."""

WRITTEN_MAX = 50
"""Decisions that one transaction writes; a thousand would keep the lease from being renewed."""

DETECTABLE = frozenset(
    {
        NodeStatus.ACTIVE.value,
        NodeStatus.WARNING.value,
        NodeStatus.ERROR.value,
        NodeStatus.RECOVERING.value,
    }
)
"""A node in ERROR is still watched; one that is being made or deleted is not (DESIGN §2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What the watch hands to the planning transaction."""

    cluster: ClusterRow
    policy: HealthPolicy
    policy_id: str
    memories: Mapping[NodeId, NodeMemory]
    known: Mapping[NodeId, NodeRow]
    """The rows that the memories rest on."""
    blind: Blindness | None
    lost: tuple[str, ...]
    told: Mapping[NodeId, tuple[object, ...]]
    """The last decision stored per node, so that only changes are written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one planning pass did."""

    told: Mapping[NodeId, tuple[object, ...]]
    admitted: int
    held: Mapping[str, int]
    """Nodes held, by reason."""
    wake_us: int | None
    more: bool
    """Whether decisions were left for the next pass, because this one had written enough."""


NOTHING = Outcome(told={}, admitted=0, held={}, wake_us=None, more=False)


def decide(kit: Kit, session: Session, conn: Connection, inputs: Inputs) -> Outcome:
    """Plan the cluster and carry out the decisions as rows; raise StaleEpoch if it is not ours."""
    if not leases.holds_watch(conn, session.me, session.epoch, inputs.cluster.id):
        raise StaleEpoch(f"cluster {inputs.cluster.name} is watched by another engine")
    cluster = catalog.cluster(conn, inputs.cluster.id)
    if cluster is None or cluster.status == ClusterStatus.DELETING:
        return NOTHING
    if policy_of(kit, conn, cluster.id) != (inputs.policy, inputs.policy_id):
        return replace(NOTHING, more=True)  # the watch reads the new one first
    inputs = replace(inputs, cluster=cluster)
    now_us = kit.clock.now_us()
    rows = {n.id: n for n in catalog.nodes_of(conn, cluster.id)}
    locks = {
        a.node_id: a
        for a in actions.unfinished(conn, cluster_id=inputs.cluster.id)
        if a.node_id is not None and a.lock_key is not None
    }
    _expire_requests(conn, locks, now_us)
    view = build_view(kit, conn, inputs, rows, locks, now_us)
    planned = plan(view, now_us)
    desk = _Desk(kit, conn, inputs, rows, locks, now_us)
    more = False
    for decision in planned.decisions:
        if desk.written >= WRITTEN_MAX:
            more = True
            break
        match decision:
            case Recover():
                desk.recover(decision)
            case Hold():
                desk.hold(decision)
    wakes = [w for w in (planned.wake_us, desk.wake_us) if w is not None]
    return Outcome(
        told=desk.told,
        admitted=desk.admitted,
        held=desk.held,
        wake_us=min(wakes, default=None),
        more=more,
    )


def _expire_requests(conn: Connection, locks: dict[NodeId, ActionRow], now_us: int) -> None:
    """End requests that were held too long: what was asked for an hour ago may be wrong now."""
    for node_id, lock in list(locks.items()):
        if lock.status == actions.WAITING and now_us - lock.created_us > REQUEST_S * 1_000_000:
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
    kit: Kit,
    conn: Connection,
    inputs: Inputs,
    rows: Mapping[NodeId, NodeRow],
    locks: Mapping[NodeId, ActionRow],
    now_us: int,
) -> ClusterView:
    """Return the cluster as the planner sees it."""
    return ClusterView(
        cluster_id=inputs.cluster.id,
        name=inputs.cluster.name,
        desired_capacity=inputs.cluster.desired_capacity,
        nodes=tuple(
            _node_view(kit, conn, inputs, row, locks.get(row.id), now_us)
            for row in rows.values()
            if row.status in DETECTABLE
            and row.id in inputs.memories
            and not outdated(inputs.known.get(row.id), row)
        ),
        recovery=inputs.policy.recovery,
        pauses=tuple(pauses.in_force(conn, now_us)),
        released_until_us=pauses.released_until(conn, inputs.cluster.id),
        blind=inputs.blind,
        lost=inputs.lost,
    )


def _node_view(
    kit: Kit,
    conn: Connection,
    inputs: Inputs,
    row: NodeRow,
    lock: ActionRow | None,
    now_us: int,
) -> NodeView:
    memory = inputs.memories[row.id]
    requested = lock is not None and lock.status == actions.WAITING
    recovering = lock is not None and not requested and lock.action == "NODE_RECOVER"
    domain = inputs.policy.recovery.limits.domain
    healthy_us = row.healthy_us if memory.health is Health.HEALTHY else None
    state = targets.retry_of(row)
    fresh = retry.stable(state, inputs.policy.recovery.retry, healthy_us, now_us)
    if fresh != state:
        catalog.set_node(conn, row.id, now_us, attempts=0, next_attempt_us=None)
    return NodeView(
        node_id=row.id,
        name=row.name,
        health=memory.health,
        settled=memory.settled,
        busy="" if lock is None or requested else lock.action,
        recovering=recovering,
        domain=str(row.attributes.get(domain, "")) if domain else "",
        retry=fresh,
        marked=memory.mark is not None,
        requested_by=str(lock.inputs.get("by", "a person")) if requested and lock else "",
        problem=problems.diagnose(memory).code,
    )


class _Desk:
    """Turns decisions into rows, one transaction long."""

    def __init__(
        self,
        kit: Kit,
        conn: Connection,
        inputs: Inputs,
        rows: Mapping[NodeId, NodeRow],
        locks: Mapping[NodeId, ActionRow],
        now_us: int,
    ) -> None:
        self.kit = kit
        self.conn = conn
        self.inputs = inputs
        self.rows = rows
        self.locks = locks
        self.now_us = now_us
        self.told: dict[NodeId, tuple[object, ...]] = {}
        self.held: dict[str, int] = {}
        self.admitted = 0
        self.written = 0
        self.wake_us: int | None = None

    def recover(self, decision: Recover) -> None:
        """Debit the budgets and insert the action, or hold."""
        row = self.rows[decision.node_id]
        spent = spending.spend(
            self.kit, self.conn, row, self.inputs.policy.recovery.limits.domain, self.now_us
        )
        if isinstance(spent, Refusal):
            self.hold(
                Hold(
                    node_id=decision.node_id,
                    cluster_id=decision.cluster_id,
                    reason=spent.reason,
                    numbers=spent.numbers,
                    until_us=spent.until_us,
                )
            )
            return
        self.written += 1
        memory = self.inputs.memories[row.id]
        incident = news.open_incident(
            self.kit,
            self.conn,
            row,
            self.inputs.cluster.name,
            cause=decision.cause,
            reason=problems.explain(memory),
            first_fail_us=memory.first_fail_us,
            now_us=self.now_us,
        )
        action_id = self._action(row, decision, incident.id)
        state = retry.started(targets.retry_of(row), self.inputs.policy.recovery.retry, self.now_us)
        catalog.set_node(
            self.conn,
            row.id,
            self.now_us,
            status=NodeStatus.RECOVERING.value,
            status_reason=f"recovery started: {decision.cause}",
            attempts=state.attempts,
            attempt_us=self.now_us,
            next_attempt_us=state.next_us,
        )
        self._store(decision, incident.id, "recover", None, decision.numbers, None)
        news.change(
            self.kit,
            self.conn,
            row,
            incident,
            IncidentState.RECOVERING,
            reason=f"trying {', '.join(a.name for a in decision.ladder)}",
            now_us=self.now_us,
            action_id=action_id,
            hold_reason=None,
            hold_numbers=None,
            decided_us=incident.decided_us or self.now_us,
        )
        self.told[row.id] = ("recover", action_id)
        self.admitted += 1

    def _action(self, row: NodeRow, decision: Recover, incident_id: str) -> ActionId:
        """Insert the action, or make the waiting request ready; either way it holds the lock."""
        waiting = self.locks.get(row.id)
        snapshot = Snapshot.of(
            self.inputs.policy,
            waiting.inputs if waiting else {},
            in_place=in_place_names(self.kit),
        )
        profile = catalog.profile(self.conn, row.profile_id)
        target = targets.target_of(row, profile, self.inputs.cluster.name)
        names = names_of(target, incident_id)
        values: dict[str, object] = {
            "incident_id": incident_id,
            "status": actions.READY,
            "status_reason": decision.cause,
            "inputs": {**(waiting.inputs if waiting else {}), "snapshot": pack(snapshot)},
            "data": {
                "health": {"recover_action": recover_action(snapshot.recovery.actions, names)}
            },
            "timeout_s": int(sum(a.timeout_s for a in snapshot.recovery.actions)) + 600,
        }
        if waiting is not None:
            actions.set_values(self.conn, waiting.id, self.now_us, **values)
            return waiting.id
        action_id = ActionId(self.kit.new_id())
        actions.add(
            self.conn,
            {
                "id": action_id,
                "name": f"node_recover_{row.id[:8]}",
                "action": "NODE_RECOVER",
                "target": row.id,
                "cluster_id": row.cluster_id,
                "node_id": row.id,
                "lock_key": row.id,
                "cause": "Health Policy",
                "created_us": self.now_us,
                "project": row.project,
                **values,
            },
        )
        return action_id

    def hold(self, decision: Hold) -> None:
        """Store the reason when it changed, and tell; the node is left alone."""
        reason = decision.reason
        self.held[reason.value] = self.held.get(reason.value, 0) + 1
        if decision.until_us is not None:
            known = self.wake_us
            self.wake_us = decision.until_us if known is None else min(known, decision.until_us)
        key = ("hold", *bucket(decision))
        if self.inputs.told.get(decision.node_id) == key:
            return
        self.written += 1
        row = self.rows[decision.node_id]
        self.told[decision.node_id] = key
        self.kit.metrics.holds.labels(reason.value).inc()
        incident = incidents.open_of(self.conn, row.id)
        if incident is None and row.exhausted_us is None and self._is_sick(row):
            incident = self._reopen(row)
        self._store(
            decision,
            incident.id if incident else None,
            "hold",
            reason.value,
            decision.numbers,
            decision.until_us,
        )
        waiting = self.locks.get(row.id)
        if waiting is not None and waiting.status == actions.WAITING:
            actions.set_values(
                self.conn, waiting.id, self.now_us, status_reason=f"held: {reason.value}"
            )
        if incident is None:
            return
        if reason is HoldReason.NEEDS_HUMAN:
            self._exhaust(row)
        elif incident.hold_reason == reason.value:
            # The same hold with other numbers: stored, but no news to anybody.
            incidents.set_values(self.conn, incident.id, hold_numbers=dict(decision.numbers))
            return
        news.change(
            self.kit,
            self.conn,
            row,
            incident,
            IncidentState.EXHAUSTED if reason is HoldReason.NEEDS_HUMAN else IncidentState.HELD,
            reason=f"held: {reason.value}",
            now_us=self.now_us,
            hold_reason=reason.value,
            hold_numbers=dict(decision.numbers),
        )

    def _is_sick(self, row: NodeRow) -> bool:
        return self.inputs.memories[row.id].health is Health.UNHEALTHY

    def _reopen(self, row: NodeRow) -> IncidentRow:
        memory = self.inputs.memories[row.id]
        return news.open_incident(
            self.kit,
            self.conn,
            row,
            self.inputs.cluster.name,
            cause=problems.diagnose(memory).code,
            reason=problems.explain(memory),
            first_fail_us=memory.first_fail_us,
            now_us=self.now_us,
        )

    def _exhaust(self, row: NodeRow) -> None:
        catalog.set_node(
            self.conn,
            row.id,
            self.now_us,
            exhausted_us=row.exhausted_us or self.now_us,
            status=NodeStatus.ERROR.value,
            status_reason="needs a human: its recoveries are used up; "
            "acknowledge with `yaffle incident ack`",
        )

    def _store(
        self,
        decision: Recover | Hold,
        incident_id: str | None,
        kind: str,
        reason: str | None,
        numbers: Mapping[str, object],
        until_us: int | None,
    ) -> None:
        memory = self.inputs.memories[decision.node_id]
        incidents.add_decision(
            self.conn,
            {
                "cluster_id": decision.cluster_id,
                "node_id": decision.node_id,
                "incident_id": incident_id,
                "kind": kind,
                "reason": reason,
                "numbers": dict(numbers),
                "inputs": {
                    "health": memory.health.value,
                    "settled": memory.settled,
                    "problem": problems.explain(memory),
                    "overrode": [r.value for r in getattr(decision, "overrode", ())],
                    "ladder": [a.name for a in self.inputs.policy.recovery.actions],
                },
                "policy_id": self.inputs.policy_id,
                "policy_version": self.inputs.policy.version,
                "at_us": self.now_us,
                "until_us": until_us,
            },
        )
