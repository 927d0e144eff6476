"""Writes the planner's decisions as rows: actions with their locks, incidents, stored holds.

One `DecisionWriter` lives for one transaction. A decision is written only when it says something new.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

from yaffle.core.decision_audit.capture import Past, stored
from yaffle.core.health import diagnosis
from yaffle.core.health.node_lifecycle import NodeEvent, move
from yaffle.core.planning import retry
from yaffle.core.planning.host_attribution import Fault, is_lost, judge
from yaffle.core.planning.planner import HOST_LOST, bucket
from yaffle.engine.action_inputs import recover_requests, target_mapping
from yaffle.engine.action_inputs.policy_snapshot import PolicySnapshot, pack
from yaffle.engine.action_inputs.template_context import names_of, recover_action
from yaffle.engine.detection.cluster_snapshot import in_place_names
from yaffle.engine.incidents import lifecycle
from yaffle.engine.incidents.host_incident import NO_HOSTS, Counts, HostIncidents
from yaffle.engine.steps import reversal
from yaffle.model.action import ActionKind
from yaffle.model.health import Health
from yaffle.model.ids import ActionId, IncidentId, NodeId
from yaffle.model.incident import Decision, Hold, HoldReason, IncidentState, Recover
from yaffle.store import actions, budgets, catalog, incidents

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.core.decision_audit.capture import Pass
    from yaffle.core.decision_audit.schema import Record
    from yaffle.core.health.verdict import NodeMemory
    from yaffle.core.planning.cluster_view import NodeView
    from yaffle.core.planning.observer_partition import Sights
    from yaffle.core.planning.planner import Planned
    from yaffle.engine.runtime.context import EngineContext
    from yaffle.model.policy import HealthPolicy, RecoveryAction
    from yaffle.store.rows import ActionRow, ClusterRow, IncidentRow, NodeRow


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredHold:
    """Content of a stored hold; the next one is stored only where it says something else."""

    bucket: tuple[str, ...]
    """Its reason, and its numbers as far as they count (`planner.bucket`)."""
    explained: bool
    """Whether the cause was known by then."""

    @property
    def reason(self) -> str:
        """The reason's name."""
        return self.bucket[0]


Told = Mapping[NodeId, StoredHold | None]
"""The last decision of each node that was stored; None for a recovery."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The inputs of the planning transaction, from the watcher."""

    cluster: ClusterRow
    policy: HealthPolicy
    policy_id: str
    memories: Mapping[NodeId, NodeMemory]
    known: Mapping[NodeId, NodeRow]
    """The rows that the memories rest on."""
    versions: Mapping[NodeId, int]
    """Of every member when those were read."""
    sights: Sights
    """Who answered us; whether that is nobody is decided with the rest."""
    lost: tuple[str, ...]
    told: Told
    """The last decision stored per node, so that only changes are written."""
    hosts: Counts = field(default_factory=lambda: NO_HOSTS)
    """What was counted of each host on which a node of the cluster is unhealthy."""


class DecisionWriter:
    """Writes the decisions of one planning transaction as rows."""

    def __init__(
        self,
        ctx: EngineContext,
        conn: Connection,
        inputs: Inputs,
        rows: Mapping[NodeId, NodeRow],
        locks: Mapping[NodeId, ActionRow],
        made_from: Pass,
    ) -> None:
        self.ctx = ctx
        self.conn = conn
        self.inputs = inputs
        self.rows = rows
        self.locks = locks
        self.made_from = made_from
        self.now_us = made_from.now_us
        self._outages = HostIncidents(ctx, conn, made_from.now_us)
        self._joined: set[IncidentId] = set()
        self.told: dict[NodeId, StoredHold | None] = {}
        self.admitted = 0
        self.written = 0

    def apply(self, planned: Planned) -> None:
        """Write a decision; a recovery in the same transaction as what it takes of the budgets."""
        match planned.decision:
            case Recover():
                budgets.write(self.conn, planned.debited)
                self._recover(planned.decision, planned.node, self._record(planned))
            case Hold():
                self._hold(planned.decision, planned)

    def _record(self, planned: Planned) -> Record:
        row = self.rows[planned.node.node_id]
        past = Past(retry=target_mapping.retry_of(row), healthy_us=row.healthy_us)
        return self.made_from.record(planned, past, self.inputs.memories[row.id])

    def _outage(self, node: NodeView) -> IncidentRow | None:
        """Return the incident of the host that the node failed with; incidents of its nodes join it."""
        memory = self.inputs.memories[node.node_id]
        outage = self._outages.of(node.host, memory.first_fail_us)
        if outage is None or node.host is None or outage.id in self._joined:
            return outage
        self._joined.add(outage.id)
        name = node.host.name
        parts = (n for n in self.made_from.view.nodes if n.host and n.host.name == name)
        self._outages.join(outage, [n.node_id for n in parts if judge(n.host) is not Fault.NODE])
        return outage

    def _recover(self, decision: Recover, node: NodeView, record: Record) -> None:
        """Insert the action, its incident and its notifications."""
        row = self.rows[decision.node_id]
        self.written += 1
        outage = self._outage(node)
        memory = self.inputs.memories[row.id]
        incident = lifecycle.open_incident(
            self.ctx,
            self.conn,
            row,
            self.inputs.cluster.name,
            cause=decision.cause,
            memory=memory,
            now_us=self.now_us,
            parent=outage.id if outage else None,
        )
        incident = self._explain(node, incident) or incident
        hopeless = is_lost(node.host) or bool(node.left_out)
        action_id, ladder = self._action(row, decision, incident.id, hopeless=hopeless)
        state = retry.started(
            target_mapping.retry_of(row), self.inputs.policy.recovery.retry, self.now_us
        )
        catalog.set_node(
            self.conn,
            row.id,
            self.now_us,
            **move(row, NodeEvent.RECOVERY_BEGUN, f"recovery started: {decision.cause}"),
            attempts=state.attempts,
            attempt_us=self.now_us,
            next_attempt_us=state.next_us,
        )
        self._store(decision, incident.id, record)
        lifecycle.transition(
            self.ctx,
            self.conn,
            row,
            incident,
            IncidentState.RECOVERING,
            reason=f"trying {', '.join(a.name for a in ladder)}",
            now_us=self.now_us,
            action_id=action_id,
            hold_reason=None,
            hold_numbers=None,
            decided_us=incident.decided_us or self.now_us,
        )
        if outage is not None:
            rungs = ", ".join(a.name for a in ladder)
            why = f"trying {rungs}, {node.name} first"
            self._outages.moved(outage, IncidentState.RECOVERING, why)
        self.told[row.id] = None
        self.admitted += 1

    def _action(
        self, row: NodeRow, decision: Recover, incident_id: str, *, hopeless: bool
    ) -> tuple[ActionId, Sequence[RecoveryAction]]:
        """Insert the action, or make the waiting request ready; either way it holds the lock.

        What is known to have happened travels with it, and its cheapest cure comes first (seed 1);
        `hopeless`: on a host that is lost, and of a copy that is gone, nothing can be cured.
        """
        waiting = self.locks.get(row.id)
        profile = catalog.profile(self.conn, row.profile_id)
        asked = waiting.inputs if waiting else reversal.of(self.inputs.memories[row.id], row)
        driver = self.ctx.drivers.profiles.get(profile.type)
        policy = self.inputs.policy
        snapshot = PolicySnapshot.of(
            replace(policy, recovery=replace(policy.recovery, actions=decision.ladder)),
            waiting.inputs if waiting else {},
            in_place=in_place_names(self.ctx),
            cure="" if hopeless else reversal.cure(driver, asked),
        )
        target = target_mapping.target_of(row, profile, self.inputs.cluster.name)
        names = names_of(target, incident_id)
        values: dict[str, object] = {
            "incident_id": incident_id,
            "status": actions.READY,
            "status_reason": decision.cause,
            "inputs": {**asked, "snapshot": pack(snapshot)},
            "data": {
                "health": {"recover_action": recover_action(snapshot.recovery.actions, names)}
            },
            "timeout_s": int(sum(a.timeout_s for a in snapshot.recovery.actions)) + 600,
        }
        if waiting is not None:
            actions.set_values(self.conn, waiting.id, self.now_us, **values)
            return waiting.id, snapshot.recovery.actions
        action_id = ActionId(self.ctx.new_id())
        actions.add(
            self.conn,
            {
                "id": action_id,
                "name": f"node_recover_{row.id[:8]}",
                "action": ActionKind.NODE_RECOVER,
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
        return action_id, snapshot.recovery.actions

    def _hold(self, decision: Hold, planned: Planned) -> None:
        """Store the hold and notify, if its reason changed."""
        node, reason = planned.node, decision.reason
        says = bucket(decision)
        self._say_held(decision)
        if self._is_held(node, says):
            return
        self.written += 1
        row = self.rows[decision.node_id]
        self.told[row.id] = StoredHold(bucket=says, explained=bool(self._cause(node)))
        self.ctx.metrics.holds.labels(reason.value).inc()
        incident = incidents.open_of(self.conn, row.id)
        anew = incident is None and row.exhausted_us is None and self._is_sick(row)
        # A host has an incident for its nodes' alone: of one whose attempts are used up there is none.
        outage = self._outage(node) if anew or incident is not None else None
        if anew:
            incident = self._reopen(row, outage)
        else:
            incident = self._explain(node, incident)
        self._store(decision, incident.id if incident else None, self._record(planned))
        if incident is None:
            return
        if reason is HoldReason.NEEDS_HUMAN:
            self._exhaust(row, incident)
        elif incident.hold_reason == reason.value:
            # The same hold with other numbers: stored, but no news to anybody.
            incidents.set_values(self.conn, incident.id, hold_numbers=dict(decision.numbers))
            return
        lifecycle.transition(
            self.ctx,
            self.conn,
            row,
            incident,
            IncidentState.EXHAUSTED if reason is HoldReason.NEEDS_HUMAN else IncidentState.HELD,
            reason=f"held: {reason.value}",
            now_us=self.now_us,
            hold_reason=reason.value,
            hold_numbers=dict(decision.numbers),
        )
        if outage is not None and reason is not HoldReason.NEEDS_HUMAN:
            self._outages.moved(
                outage,
                IncidentState.HELD,
                f"held: {reason.value}",
                hold_reason=reason.value,
                hold_numbers=dict(decision.numbers),
            )

    def _say_held(self, decision: Hold) -> None:
        """Write into a waiting request what holds it."""
        waiting = self.locks.get(decision.node_id)
        if waiting is not None and (values := recover_requests.held(waiting, decision.reason)):
            self.written += 1
            actions.set_values(self.conn, waiting.id, self.now_us, **values)

    def _is_held(self, node: NodeView, says: tuple[str, ...]) -> bool:
        """Whether the same hold is stored already."""
        told = self.inputs.told.get(node.node_id)
        if told is None or told.bucket != says:
            return False
        if not told.explained and self._cause(node):
            self._explain(node, incidents.open_of(self.conn, node.node_id))
            self.told[node.node_id] = replace(told, explained=True)
        return True

    def _cause(self, node: NodeView) -> str:
        """Return the diagnosis of a node; empty where it is not known, or a person marked it."""
        known = not node.marked and node.problem != diagnosis.UNEXPLAINED.code
        return HOST_LOST if is_lost(node.host) else node.problem if known else ""

    def _explain(self, node: NodeView, incident: IncidentRow | None) -> IncidentRow | None:
        cause = self._cause(node)
        return lifecycle.explained(self.conn, incident, cause) if incident and cause else incident

    def _is_sick(self, row: NodeRow) -> bool:
        return self.inputs.memories[row.id].health is Health.UNHEALTHY

    def _reopen(self, row: NodeRow, outage: IncidentRow | None) -> IncidentRow:
        memory = self.inputs.memories[row.id]
        return lifecycle.open_incident(
            self.ctx,
            self.conn,
            row,
            self.inputs.cluster.name,
            cause=diagnosis.diagnose(memory).code,
            memory=memory,
            now_us=self.now_us,
            parent=outage.id if outage else None,
        )

    def _exhaust(self, row: NodeRow, incident: IncidentRow) -> None:
        why = (
            "needs a human: its recoveries are used up; "
            f"acknowledge with `yaffle incident ack {incident.id[:8]}`"
        )
        exhausted_us = row.exhausted_us or self.now_us
        values = {**move(row, NodeEvent.NEEDS_HUMAN, why), "exhausted_us": exhausted_us}
        catalog.set_node(self.conn, row.id, self.now_us, **values)

    def _store(self, decision: Decision, incident_id: str | None, record: Record) -> None:
        memory = self.inputs.memories[decision.node_id]
        row = stored(decision, record, memory)
        values = {field.name: getattr(row, field.name) for field in fields(row)}
        incidents.add_decision(self.conn, {**values, "incident_id": incident_id})
