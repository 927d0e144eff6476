"""Explains a node: why it is as it is, and why something or nothing is done about it.

Everything is read from one snapshot: belief, decision, step under way and history fit together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle.core.health.staleness import voting
from yaffle.core.planning.retry import allowed_once_spent
from yaffle.core.recovery.host_quarantine import CAUSE as QUARANTINED
from yaffle.core.recovery.ladder import Result, Stage
from yaffle.engine.action_inputs.recover_requests import expires_us
from yaffle.engine.detection.cluster_snapshot import policy_of
from yaffle.engine.explain.answer import Answer, Doing, Held, LastWord
from yaffle.engine.explain.holds import EXPLANATIONS, MISSING, advice, sentence
from yaffle.engine.queries import presentation
from yaffle.engine.queries.catalogue import worst_case
from yaffle.engine.queries.decisions import decision
from yaffle.engine.queries.members import node as shown_node
from yaffle.engine.runtime.pauses import halted
from yaffle.engine.steps.disk_snapshot import lost_for
from yaffle.engine.steps.host_quarantine import kept_of
from yaffle.engine.steps.node_action_plan import in_doubt
from yaffle.engine.steps.preflight import impossible
from yaffle.engine.steps.recovery_completion import untried
from yaffle.errors import EngineUnavailable
from yaffle.model.health import Health
from yaffle.model.incident import HoldReason
from yaffle.store import actions, catalog, incidents, journal, lock_owners, watch_leases
from yaffle.store.rows import ClusterRow, NodeRow

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from sqlalchemy import Connection

    from yaffle.engine.queries.presentation import Shown
    from yaffle.engine.runtime.context import EngineContext
    from yaffle.model.authz import Principal
    from yaffle.model.ids import NodeId
    from yaffle.store.rows import ActionRow, IncidentRow, PolicyRow

__all__ = ["EXPLANATIONS", "Answer", "Explainer"]

LAST_MAX = 3
UNHEARD = LastWord()
_NO_FURTHER = frozenset({Result.FAILED.value, Result.UNPROVED.value, Result.UNCLEAR.value})
_BESIDE = frozenset({Stage.EVIDENCE.value, Stage.SNAPSHOT.value})
"""A recovery goes on without them."""


async def _nothing(_node: NodeId) -> None:
    """Remember nothing, as where no engine is at hand."""


class Explainer:
    """Explains nodes."""

    def __init__(
        self,
        ctx: EngineContext,
        last_words: Callable[[NodeId], Awaitable[Mapping[str, LastWord] | None]] = _nothing,
    ) -> None:
        self._ctx = ctx
        self._last_words = last_words
        """What the engine at hand remembers; rows do not hold every mode's last word."""

    async def why(self, who: Principal, node: str) -> Answer:
        """Return the whole answer; raise NotFound or MultipleChoices."""
        now_us = self._ctx.clock.now_us()
        store = self._ctx.store
        ident = (await store.read(lambda conn: catalog.find_node(conn, node, who.scope))).id
        # Here, not in the unit of work: that may run in a thread, and memories belong to a loop.
        try:
            words = await self._last_words(ident)
        except EngineUnavailable:
            words = None
        return await store.read(
            lambda conn: _answer(self._ctx, conn, catalog.find_node(conn, ident), now_us, words)
        )


def _answer(
    ctx: EngineContext,
    conn: Connection,
    row: NodeRow,
    now_us: int,
    words: Mapping[str, LastWord] | None,
) -> Answer:
    policy = catalog.bound_policy(conn, row.cluster_id) if row.cluster_id else None
    node = shown_node(ctx, conn, row)
    holder = lock_owners.lock_holder(conn, row.id)
    latest = next(iter(incidents.decisions_of(conn, row.id, 1)), None)
    decided = None if latest is None else decision(latest)
    watcher = _watcher(ctx, conn, row)
    past = incidents.listed(conn, open_only=False, node_id=row.id, limit=LAST_MAX)
    maybe = in_doubt(conn, row.attributes)
    return Answer(
        now_us=now_us,
        node=node,
        called=catalog.called(conn, NodeRow, row.id, row.name),
        since_us=row.health_us or row.created_us,
        believed=row.health_reason,
        modes=_modes(ctx, conn, row, words),
        watched=watcher is not None,
        watcher=watcher,
        policy=policy.name if policy else "",
        decision=decided,
        held=_held(conn, row, node, holder, decided, past[0] if past else None),
        doing=_doing(conn, holder),
        last=[presentation.incident(i) for i in past],
        last_attempt=_last_attempt(conn, row, past[0]) if past else (),
        disk_lost=lost_for(journal.of_incident(conn, past[0].id)) if past else "",
        bound=_bound(policy),
        halted=halted(conn, row.id, row.cluster_id, now_us),
        outage=_outage(conn, past[0]) if past else None,
        old_copies=_old_copies(conn, row),
        in_doubt=maybe.name if maybe else "",
    )


def _last_attempt(conn: Connection, row: NodeRow, latest: IncidentRow) -> list[Shown]:
    """Return the steps at which the last recovery that failed did not get on, rung by rung."""
    if row.health == Health.HEALTHY:
        return []
    return [
        {
            "operation": step.operation,
            "stage": step.stage,
            "result": step.result,
            "detail": step.detail,
            **presentation.times(ended=step.ended_us),
        }
        for step in journal.of_last_failure(conn, latest.id)
        if step.result in _NO_FURTHER and step.stage not in _BESIDE
    ]


def _outage(conn: Connection, latest: IncidentRow) -> Shown | None:
    """Return the open incident of the host that the node failed with; None where it failed alone."""
    parent = incidents.by_id(conn, latest.parent_id) if latest.parent_id else None
    if parent is None or parent.open_key is None or latest.open_key is None:
        return None
    return {
        "incident_id": parent.id,
        "host": parent.node_name,
        "cause": parent.cause,
        "state": parent.state,
        "others": sum(incidents.states_of_parts(conn, parent.id).values()) - 1,
    }


def _old_copies(conn: Connection, row: NodeRow) -> list[Shown]:
    """Return the quarantines of hosts that the node was moved off."""
    found: list[Shown] = []
    for one in incidents.open_of_cause(conn, QUARANTINED):
        kept = kept_of(one)
        if kept is not None and any(c.node_id == row.id for c in kept.copies):
            found.append({"incident_id": one.id, "host": one.node_name, "reason": one.reason})
    return found


def _modes(
    ctx: EngineContext, conn: Connection, row: NodeRow, words: Mapping[str, LastWord] | None
) -> list[Shown]:
    """Return each voting mode's belief and last word; empty without policy or memory."""
    if words is None or row.cluster_id is None:
        return []
    policy = policy_of(ctx, conn, row.cluster_id)[0]
    found: list[Shown] = []
    for mode in voting(policy.detection):
        last = words.get(mode.key, UNHEARD)
        found.append(
            {
                "mode": mode.key,
                "belief": last.belief,
                "code": last.code,
                "detail": last.detail,
                **presentation.times(at=last.at_us),
            }
        )
    return found


def _watcher(ctx: EngineContext, conn: Connection, row: NodeRow) -> Shown | None:
    """Return which engine holds the cluster's watch now; None where none does.

    `here`: it is one of this very process, so that what it remembers is told as well.
    """
    found = None if row.cluster_id is None else watch_leases.holder(conn, row.cluster_id)
    if found is None:
        return None
    return {
        "engine_id": found.engine_id,
        "host": found.host,
        "pid": found.pid,
        "here": (found.host, found.pid) == (ctx.host, ctx.pid),
        **presentation.times(since=found.since_us),
    }


def _held(
    conn: Connection,
    row: NodeRow,
    node: Shown,
    holder: ActionRow | None,
    decided: Shown | None,
    latest: IncidentRow | None,
) -> Held | None:
    """Return what holds the node *now*: the last word may be about a failure that is over."""
    if row.exhausted_us is not None and holder is None and row.health != Health.HEALTHY:
        # Whatever was decided before: it ended there, and only a person goes on.
        return _needs_human(conn, row, node)
    waiting = holder is not None and holder.status == actions.WAITING
    concerns = waiting or (holder is None and row.health == Health.UNHEALTHY)
    if decided is None or decided["kind"] != "hold" or not concerns:
        return None
    reason = HoldReason(str(decided["reason"]))
    numbers = decided["numbers"] if isinstance(decided["numbers"], dict) else {}
    if reason is HoldReason.COOLING_DOWN and latest is not None:
        past = journal.of_last_failure(conn, latest.id)
        numbers = numbers | ({MISSING: impossible(past)} if untried(past) else {})
    until_us = decided["until_us"]
    return _told(conn, row, node, reason, numbers, until_us if isinstance(until_us, int) else None)


def _needs_human(conn: Connection, row: NodeRow, node: Shown) -> Held:
    retry = node["retry"]
    allowed = retry["allowed"] if isinstance(retry, dict) else None
    numbers = {
        "attempts": row.attempts,
        "allowed": allowed and allowed_once_spent(row.attempts, allowed),
    }
    return _told(conn, row, node, HoldReason.NEEDS_HUMAN, numbers, None)


def _told(
    conn: Connection,
    row: NodeRow,
    node: Shown,
    reason: HoldReason,
    numbers: Mapping[str, object],
    until_us: int | None,
) -> Held:
    retry = node["retry"]
    incident = retry.get("incident_id") if isinstance(retry, dict) else None
    return Held(
        reason=reason.value,
        sentence=sentence(reason, numbers),
        advice=advice(
            reason,
            numbers,
            node=catalog.called(conn, NodeRow, row.id, row.name),
            cluster=catalog.called(conn, ClusterRow, row.cluster_id or "", str(node["cluster"])),
            incident=str(incident)[:8] if incident else "ID",
        ),
        numbers=numbers,
        runbook=presentation.runbook(reason.value, numbers),
        until_us=until_us,
    )


def _doing(conn: Connection, holder: ActionRow | None) -> Doing | None:
    if holder is None:
        return None
    steps = journal.of_action(conn, holder.id)
    step = steps[-1] if steps and steps[-1].phase != journal.ENDED else None
    return Doing(
        action=holder.action,
        action_id=holder.id,
        status=holder.status,
        by=str(holder.inputs.get("by") or holder.user),
        stage=step.stage if step else "",
        operation=step.operation if step else "",
        since_us=holder.start_us or holder.created_us,
        step_us=step.intent_us if step else None,
        expires_us=expires_us(holder),
    )


def _bound(policy: PolicyRow | None) -> list[str]:
    found = worst_case(policy) if policy else None
    lines = found["lines"] if found else None
    return [str(line) for line in lines] if isinstance(lines, list) else []
