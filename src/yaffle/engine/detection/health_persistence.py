"""Persists health: node rows, events, incidents opened and ended, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from yaffle.core.health import diagnosis
from yaffle.core.health.cluster_status import judge
from yaffle.core.health.node_lifecycle import NodeEvent, move, remark
from yaffle.core.health.staleness import voting
from yaffle.core.planning import retry
from yaffle.engine.action_inputs.default_policy import unread
from yaffle.engine.action_inputs.target_mapping import retry_of
from yaffle.engine.incidents import lifecycle
from yaffle.engine.incidents.host_incident import (
    NO_HOSTS,
    Counts,
    HostIncidents,
    host_report_of,
    lost_hosts,
)
from yaffle.errors import StaleEpoch
from yaffle.model.health import ClusterStatus, Health, NodeStatus, Outcome
from yaffle.model.incident import IncidentState
from yaffle.store import actions, catalog, incidents, leases, lock_owners

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.core.health.verdict import NodeMemory
    from yaffle.engine.detection.cluster_snapshot import ClusterSnapshot
    from yaffle.engine.runtime.context import EngineContext
    from yaffle.engine.runtime.session import Session
    from yaffle.model.health import OtherCopy
    from yaffle.model.ids import ClusterId, IncidentId, NodeId
    from yaffle.store.rows import ActionRow, IncidentRow, NodeRow


log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """The part of a health state that is stored."""

    health: str
    gray: bool
    backend_status: str
    left: str
    """Why it does not run though nothing is wrong; empty where it runs."""
    problem: str
    """What is wrong with it, in one sentence; empty where it is not unhealthy."""

    @classmethod
    def of_memory(cls, memory: NodeMemory, before: Saved | None) -> Saved:
        """Return what should be stored after `before`."""
        left = diagnosis.left_as_it_is(memory)
        if left is None:
            # Whoever cannot be asked does not say that it runs again.
            left = before.left if before is not None else ""
        sick = memory.health is Health.UNHEALTHY
        return cls(
            health=memory.health.value,
            gray=memory.gray,
            backend_status=backend_status(memory),
            left="" if sick else left,
            problem=diagnosis.standing(memory, before.problem if before else "") if sick else "",
        )

    @classmethod
    def of_row(cls, row: NodeRow) -> Saved:
        """Return what is stored."""
        return cls(
            health=row.health,
            gray=row.gray,
            backend_status=row.backend_status,
            left=row.left_as_it_is,
            problem=problem_of(row),
        )


def problem_of(row: NodeRow) -> str:
    """Return the stored problem sentence; empty for a node that is not unhealthy."""
    return diagnosis.told(row.health_reason) if row.health == Health.UNHEALTHY else ""


def backend_status(memory: NodeMemory) -> str:
    """Return the backend's latest own word."""
    return next(
        (
            t.last.backend_status
            for t in memory.tracks.values()
            if t.last is not None and t.last.backend_status
        ),
        "",
    )


def save(
    ctx: EngineContext,
    session: Session,
    conn: Connection,
    snapshot: ClusterSnapshot,
    changed: Mapping[NodeId, NodeMemory],
    hosts: Counts = NO_HOSTS,
) -> Mapping[NodeId, Saved]:
    """Write the changed health states; raise StaleEpoch if the cluster is no longer ours.

    `hosts`: what was counted of the machines under its unhealthy nodes.
    """
    if not leases.holds_watch(conn, session.me, session.epoch, snapshot.cluster.id):
        raise StaleEpoch(f"our lease on cluster {snapshot.cluster.name} is over")
    now_us = ctx.clock.now_us()
    rows = catalog.nodes_among(conn, changed)
    current = {
        i: r
        for i, r in rows.items()
        if not outdated(snapshot.nodes.get(i), r) and not verified_since(r, changed[i], now_us)
    }
    around = _Around(
        holders=lock_owners.holders_among(conn, current),
        incidents=incidents.open_among(conn, current),
        hosts=hosts,
        lost=lost_hosts(conn, hosts),
        outages=HostIncidents(ctx, conn, now_us),
    )
    # In the order given: every engine that writes several events writes them in the same one.
    written = {
        ident: _values_of(ctx, conn, snapshot, current[ident], memory, around, now_us)
        for ident, memory in changed.items()
        if ident in current
    }
    catalog.set_nodes(conn, written, now_us)
    refresh_cluster(conn, snapshot.cluster.id, now_us)
    return {
        ident: Saved.of_memory(changed[ident], Saved.of_row(current[ident])) for ident in written
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Around:
    """What else is true of the nodes whose beliefs are written, read at once for all of them."""

    holders: Mapping[str, ActionRow]
    incidents: Mapping[NodeId, IncidentRow]
    hosts: Counts
    lost: frozenset[str]
    outages: HostIncidents

    def parent(self, row: NodeRow, memory: NodeMemory) -> IncidentId | None:
        """Return the incident of the host that the node failed with; None where it failed alone."""
        seen = host_report_of(row, memory, self.hosts, self.lost)
        outage = self.outages.of(seen, memory.first_fail_us)
        return None if outage is None else outage.id

    def recovering(self, ident: NodeId) -> bool:
        """Whether an action is working on the node, whose rows are then left to that."""
        holder = self.holders.get(ident)
        return holder is not None and holder.status in actions.ACTIVE


def outdated(known: NodeRow | None, row: NodeRow) -> bool:
    """Whether a health state is about an earlier copy or mark of the node.

    The watch will read the row again in a moment; to act on what it believed of the copy before
    would open an incident about a failure that has been dealt with.
    """
    if known is None:
        return True
    newer = row.grace_us is not None and row.grace_us != known.grace_us
    return newer or (row.mark_reason, row.mark_us) != (known.mark_reason, known.mark_us)


def verified_since(row: NodeRow, memory: NodeMemory, now_us: int) -> bool:
    """Whether a recovery verified the node after its present verdict."""
    if row.health != Health.HEALTHY or memory.health is Health.HEALTHY:
        return False
    return memory.since_us < (row.healthy_us or 0) <= now_us


def _values_of(
    ctx: EngineContext,
    conn: Connection,
    snapshot: ClusterSnapshot,
    row: NodeRow,
    memory: NodeMemory,
    around: _Around,
    now_us: int,
) -> Mapping[str, object]:
    """Return what changes in the node's row; its events and incidents are written at once."""
    values: dict[str, object] = {
        "gray": memory.gray,
        "backend_status": backend_status(memory) or row.backend_status,
        "seen_us": now_us,
    }
    left = Saved.of_memory(memory, Saved.of_row(row)).left
    known = snapshot.nodes.get(row.id)
    if memory.grace_us is None and known is not None and known.grace_us == row.grace_us:
        # Grace that ended early must not come back with a successor; a newer one is left alone.
        values["grace_us"] = None
    if memory.health.value != row.health:
        reason = diagnosis.explain(memory) if memory.health is Health.UNHEALTHY else left
        values |= {
            "health": memory.health.value,
            "health_us": memory.since_us,
            "health_reason": reason,
            "healthy_us": memory.since_us if memory.health is Health.HEALTHY else None,
        }
        values |= _forgotten(snapshot, row, now_us)
        ctx.metrics.transitions.labels(memory.health.value).inc()
        lifecycle.node_event(
            conn,
            row,
            at_us=now_us,
            action="HEALTH",
            status=memory.health.value,
            reason=reason or f"was {row.health}",
            data={"from": row.health, "to": memory.health.value},
        )
    elif memory.health.value == row.health != Health.UNHEALTHY:
        values |= _left(conn, row, left, now_us)
    elif diagnosis.standing(memory, problem_of(row)) != problem_of(row):
        values |= _told_anew(row, diagnosis.explain(memory))
    if memory.health is Health.UNHEALTHY:
        values |= _fell_ill(ctx, conn, snapshot, row, memory, around, now_us)
    elif memory.health is Health.HEALTHY:
        values |= _adopted(conn, row, memory, around, now_us)
        ends_as, why = IncidentState.ALREADY_HEALTHY, "by itself"
        if left:
            ends_as, why = IncidentState.SUPERSEDED, left
        values |= _is_well(ctx, conn, row, around, now_us, ends_as, why)
        if left and not around.recovering(row.id):
            values |= move(row, NodeEvent.LEFT_ALONE, left)
    elif not voting(snapshot.policy.detection) and not unread(snapshot.policy, snapshot.policy_id):
        values |= _is_well(ctx, conn, row, around, now_us, IncidentState.SUPERSEDED, UNWATCHED)
    elif row.health == Health.UNHEALTHY:
        _in_doubt(ctx, conn, row, memory, around, now_us)
    return values


def _left(conn: Connection, row: NodeRow, left: str, now_us: int) -> dict[str, object]:
    """Write why a node that is off by wish does not run, or that it runs again."""
    if left == row.left_as_it_is:
        return {}
    lifecycle.node_event(
        conn,
        row,
        at_us=now_us,
        action="LEFT_AS_IT_IS" if left else "RUNS_AGAIN",
        status="end",
        reason=left or "it runs again",
        data={"backend_status": row.backend_status},
    )
    return {"health_reason": left}


def _told_anew(row: NodeRow, reason: str) -> Mapping[str, object]:
    """Update the problem sentence of a node that stays unhealthy."""
    same = row.status == NodeStatus.WARNING and row.status_reason == row.health_reason
    return {"health_reason": reason, **(remark(row, reason) if same else {})}


def _adopted(
    conn: Connection, row: NodeRow, memory: NodeMemory, around: _Around, now_us: int
) -> dict[str, object]:
    """Rebind the node to the copy that is healthy; a recovery does so itself.

    While the row names the one that is gone, nobody hears what happens to the other.
    """
    other = stray_of(memory)
    if other is None or other.known != row.physical_id or around.recovering(row.id):
        return {}
    if other.present == other.known:
        return _moved(conn, row, other, now_us)
    log.warning("copy adopted", node=row.name, physical_id=other.present)
    lifecycle.node_event(
        conn,
        row,
        at_us=now_us,
        action="ADOPT_COPY",
        status="end",
        reason=f"{other.present} bears its mark and is well; {other.known} is gone",
        level=30,
        data={"known": other.known, "present": other.present},
    )
    adopted: dict[str, object] = {"physical_id": other.present}
    if other.attributes is not None:
        adopted["attributes"] = dict(other.attributes)
    return adopted


def _moved(conn: Connection, row: NodeRow, other: OtherCopy, now_us: int) -> dict[str, object]:
    """Store the host that the node's copy is on now; attribution to hosts relies on it."""
    facts = {**row.attributes, **(other.attributes or {})}
    before, after = row.attributes.get("host"), facts.get("host")
    if before and before != after:
        lifecycle.node_event(
            conn,
            row,
            at_us=now_us,
            action="COPY_MOVED",
            status="end",
            reason=f"it runs on host {after} now; it was on {before}",
            data={"from": before, "to": after},
        )
    return {} if facts == dict(row.attributes) else {"attributes": facts}


def stray_of(memory: NodeMemory) -> OtherCopy | None:
    """Return the healthy copy that is not the known one; None where it is."""
    return next(
        (
            t.last.copy
            for t in memory.tracks.values()
            if t.last is not None and t.last.copy is not None and t.last.outcome is Outcome.PASS
        ),
        None,
    )


def _forgotten(snapshot: ClusterSnapshot, row: NodeRow, now_us: int) -> dict[str, object]:
    """Reset the attempts as a long healthy time ends, while its length is still known."""
    before = retry_of(row)
    if retry.stable(before, snapshot.policy.recovery.retry, row.healthy_us, now_us) == before:
        return {}
    return {"attempts": 0, "next_attempt_us": None}


def _fell_ill(
    ctx: EngineContext,
    conn: Connection,
    snapshot: ClusterSnapshot,
    row: NodeRow,
    memory: NodeMemory,
    around: _Around,
    now_us: int,
) -> dict[str, object]:
    """Open the incident and set the status WARNING, so that Senlin's own rules come right."""
    # A node whose recoveries are used up and that got well since fails anew: that is news, even
    # though only a person may have it healed.
    # Its status remembers that: one that stayed ill bears ERROR, also while we could not ask it.
    well = row.status == NodeStatus.ACTIVE or bool(row.left_as_it_is)
    anew = row.exhausted_us is None or well
    if anew and row.id not in around.incidents:
        lifecycle.open_incident(
            ctx,
            conn,
            row,
            snapshot.cluster.name,
            cause=diagnosis.diagnose(memory).code,
            memory=memory,
            now_us=now_us,
            parent=around.parent(row, memory),
        )
        if memory.first_fail_us is not None:
            ctx.metrics.detect.observe(max(0.0, (now_us - memory.first_fail_us) / 1e6))
    if not well:
        return {}
    return move(row, NodeEvent.FELL_ILL, diagnosis.explain(memory))


def _in_doubt(
    ctx: EngineContext,
    conn: Connection,
    row: NodeRow,
    memory: NodeMemory,
    around: _Around,
    now_us: int,
) -> None:
    """End the hold of a node whose verdict no longer stands and is replaced by none."""
    incident = around.incidents.get(row.id)
    if incident is None or around.recovering(row.id):
        return
    lifted = incident.cause == "marked" and memory.mark is None
    lifecycle.transition(
        ctx,
        conn,
        row,
        incident,
        IncidentState.SUPERSEDED if lifted else IncidentState.OPEN,
        reason="the mark was lifted" if lifted else f"no longer judged: {memory.health.value}",
        now_us=now_us,
        tell=lifted,
        hold_reason=None,
        hold_numbers=None,
    )


BY_HEALTH = "HEALTH"
"""What a cluster's status reason names where no action of a user led to it."""
UNWATCHED = "nothing watches it any more"
LIFTED = "the mark was lifted, and its checks pass"
"""Of one that was perhaps never unhealthy."""


def _is_well(
    ctx: EngineContext,
    conn: Connection,
    row: NodeRow,
    around: _Around,
    now_us: int,
    becomes: IncidentState,
    why: str,
) -> dict[str, object]:
    """End the incident of a node that became healthy outside a recovery, or is no longer watched.

    One that is being recovered is left to its recovery.
    """
    if around.recovering(row.id):
        return {}
    incident = around.incidents.get(row.id)
    well = becomes is IncidentState.ALREADY_HEALTHY
    lifted = incident is not None and incident.cause == "marked"
    if well and incident is not None and incident.started_us is not None:
        why = "after its last attempt had ended"
    told, again = f"it became healthy {why}" if well else why, f"healthy again, {why}"
    if lifted:
        told, again = (LIFTED, LIFTED) if well else (why, "the mark was lifted")
    if incident is not None:
        lifecycle.transition(
            ctx,
            conn,
            row,
            incident,
            becomes,
            reason=told,
            now_us=now_us,
            recovered_us=now_us if well else None,
        )
    # Nobody says that it runs again because nobody looks any more; a mark is lifted by a word.
    if not (well or lifted):
        return {}
    return move(row, NodeEvent.BECAME_WELL, "it runs again" if row.left_as_it_is else again)


def refresh_cluster(conn: Connection, cluster_id: ClusterId, now_us: int) -> None:
    """Write the cluster's status if its nodes' changed it; while an action holds it, that says it."""
    cluster = catalog.cluster(conn, cluster_id)
    if cluster is None or cluster.status == ClusterStatus.DELETING:
        return
    if lock_owners.holder_of(conn, cluster_id) is not None:
        return
    status, reason = judge(
        catalog.statuses_of(conn, cluster_id).get(NodeStatus.ACTIVE.value, 0),
        desired=cluster.desired_capacity,
        min_size=cluster.min_size,
        max_size=cluster.max_size,
        operation=BY_HEALTH,
    )
    if status.value != cluster.status:
        catalog.set_cluster(conn, cluster_id, now_us, status=status.value, status_reason=reason)
