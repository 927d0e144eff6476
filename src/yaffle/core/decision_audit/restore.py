"""Restores the inputs of the deciding functions from a stored audit record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from yaffle.core.decision_audit.schema import Believed, Heard, Record, Stored, node_counts
from yaffle.core.health import diagnosis
from yaffle.core.health.verdict import NodeMemory, Track
from yaffle.core.planning.budgets import Bucket, BudgetLimit, Scope
from yaffle.core.planning.cluster_view import ClusterView, NodeView
from yaffle.core.planning.guards import tally
from yaffle.core.planning.observer_partition import Blindness, is_blind
from yaffle.core.planning.planner import decide, within_budgets
from yaffle.core.planning.retry import RetryState, stable
from yaffle.model.health import Health, Mark, Observation
from yaffle.model.ids import ClusterId, ModeKey, NodeId, PauseId
from yaffle.model.incident import Decision, Pause, PauseKind
from yaffle.model.policy import (
    Detection,
    DetectionMode,
    Recovery,
    RecoveryAction,
    Retry,
    UrlOptions,
)

if TYPE_CHECKING:
    from yaffle.core.decision_audit.schema import Mode

COPIES_MAX: Final = 10_000
"""Bounds what a damaged row can ask for."""


def memory_of(believed: Believed) -> NodeMemory:
    """Return the memory again, as far as a verdict depends on it."""
    return NodeMemory(
        node_id=NodeId(""),
        health=believed.health,
        settled=believed.settled,
        gray=believed.gray,
        grace_us=believed.grace_us,
        unheard_us=believed.unheard_us,
        mark=None if believed.mark is None else Mark(reason=believed.mark, by="", at_us=0),
        tracks=MappingProxyType({h.mode: _track(h) for h in believed.heard}),
    )


def _track(heard: Heard) -> Track:
    last = heard.last
    return Track(
        belief=heard.belief,
        fails=heard.fails,
        fell=heard.fell,
        last=None
        if last is None
        else Observation(
            node_id=NodeId(""),
            mode=heard.mode,
            outcome=last.outcome,
            code=last.code,
            detail=last.detail,
            at_us=last.at_us,
        ),
    )


def detection_of(record: Record) -> Detection:
    """Return the policy's detection again, as far as a verdict depends on it."""
    judging = record.judging
    return Detection(
        interval_s=judging.interval_s,
        node_update_timeout_s=judging.node_update_timeout_s,
        grace_ends_early=judging.grace_ends_early,
        conditional=judging.conditional,
        rise=1,
        fall=1,
        confirm_status=False,
        modes=tuple(map(_mode, judging.modes)),
    )


def _mode(mode: Mode) -> DetectionMode:
    if mode.url is None:
        return DetectionMode(key=ModeKey(mode.key), type=mode.type)
    timeout_s, tries, pause_s = mode.url
    url = UrlOptions(poll_url="", timeout_s=timeout_s, retry_limit=tries, retry_interval_s=pause_s)
    return DetectionMode(key=ModeKey(mode.key), type=mode.type, url=url)


# --- the decision ---------------------------------------------------------------------------------


def again(stored: Stored, record: Record) -> Decision:
    """Return the decision that the record comes to."""
    view = view_of(stored, record)
    (node,) = view.nodes
    seen = node_counts(record.nodes, record.subject.domain)
    counts = tally(seen, view.recovery.limits, view.desired_capacity)
    decision = decide(view, node, counts, record.now_us)
    asked = {
        (Scope(p.scope), p.key): Bucket(
            tokens=p.tokens, updated_us=p.updated_us, in_flight=p.in_flight
        )
        for p in record.purses
    }
    limits = {
        Scope(p.scope): BudgetLimit(
            max_in_flight=p.max_in_flight, burst=p.burst, per_hour=p.per_hour
        )
        for p in record.purses
    }
    return within_budgets(decision, asked, limits, record.now_us)[0]


def view_of(stored: Stored, record: Record) -> ClusterView:
    """Return the cluster as the planner saw it, with the node decided upon as its only one."""
    recovery = _recovery_of(record)
    sight = Blindness(
        asked=record.sight.asked,
        answered=record.sight.answered,
        references_asked=record.sight.references_asked,
        references_answered=record.sight.references_answered,
        road=record.sight.road,
    )
    blind = sight if is_blind(sight) else None
    return ClusterView(
        cluster_id=ClusterId(stored.cluster_id),
        name="",
        desired_capacity=record.desired_capacity,
        nodes=(replace(_node_of(stored, record, recovery), blind=blind),),
        recovery=recovery,
        pauses=tuple(_pauses_of(record)),
        released_until_us=record.released_until_us,
        hosts=record.hosts,
        blind=None if sight.road else blind,
        lost=record.lost,
    )


def _node_of(stored: Stored, record: Record, recovery: Recovery) -> NodeView:
    subject, believed = record.subject, record.believed
    state = RetryState(
        attempts=subject.attempts, next_us=subject.next_us, exhausted_us=subject.exhausted_us
    )
    well_us = subject.healthy_us if believed.health is Health.HEALTHY else None
    return NodeView(
        node_id=NodeId(stored.node_id),
        name="",
        health=believed.health,
        settled=believed.settled,
        busy=subject.busy,
        domain=subject.domain,
        retry=stable(state, recovery.retry, well_us, record.now_us),
        marked=believed.mark is not None,
        host=record.host,
        left_out=record.left_out,
        requested_by=subject.requested_by,
        problem=diagnosis.diagnose(memory_of(believed)).code,
    )


def _recovery_of(record: Record) -> Recovery:
    healing, tries = record.healing, record.healing.tries
    return Recovery(
        mode=healing.mode,
        actions=tuple(RecoveryAction(name=name) for name in healing.actions),
        fencing=(),
        node_delete_timeout_s=0.0,
        node_force_recreate=False,
        limits=healing.limits,
        retry=Retry(
            attempts=tries.attempts,
            backoff_s=0.0,
            max_backoff_s=tries.max_backoff_s,
            stable_after_s=tries.stable_after_s,
        ),
    )


def _pauses_of(record: Record) -> Iterator[Pause]:
    """Yield the pauses again; of those whose number alone was kept, copies that come last."""
    last: dict[PauseKind, Pause] = {}
    for kept in record.pauses:
        last[kept.kind] = pause = Pause(
            id=PauseId(kept.id),
            kind=kept.kind,
            scope=kept.scope,
            target_id=kept.target_id,
            owner=kept.owner,
            reason=kept.reason,
            starts_us=kept.starts_us,
            expires_us=kept.expires_us,
        )
        yield pause
    for kind, pause in last.items():
        for number in range(min(record.more_pauses.get(kind, 0), COPIES_MAX)):
            yield replace(pause, id=PauseId(f"{pause.id}+{number}"))
