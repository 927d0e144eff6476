"""Captures the inputs of one decision as an audit record of bounded size."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from yaffle.core.decision_audit.schema import (
    PAUSES_MAX,
    RECORD,
    VERSION,
    Answered,
    Believed,
    Budgets,
    Healing,
    Heard,
    Judging,
    Mode,
    Paused,
    Record,
    Sight,
    Stored,
    Subject,
    Tries,
    kinds,
    pack,
)
from yaffle.core.health import diagnosis
from yaffle.core.health.staleness import voting
from yaffle.core.planning.pauses import covering
from yaffle.model.incident import Hold, PauseKind, Recover

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yaffle.core.health.verdict import NodeMemory, Track
    from yaffle.core.planning.budgets import Bucket, BudgetLimit, Key, Scope
    from yaffle.core.planning.cluster_view import ClusterView, NodeView
    from yaffle.core.planning.observer_partition import Sights
    from yaffle.core.planning.planner import Planned
    from yaffle.core.planning.retry import RetryState
    from yaffle.model.ids import ModeKey
    from yaffle.model.incident import Decision
    from yaffle.model.policy import Detection, DetectionMode, HealthPolicy, Recovery


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """Stored past of a node; whether past attempts are forgotten by now is decided with the rest."""

    retry: RetryState
    healthy_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """Inputs that all decisions of one planning pass have in common."""

    view: ClusterView
    policy: HealthPolicy
    policy_id: str
    sights: Sights
    limits: Mapping[Scope, BudgetLimit]
    now_us: int

    def record(self, planned: Planned, past: Past, memory: NodeMemory) -> Record:
        """Return what the decision about this node rests on."""
        view, node = self.view, planned.node
        sight = self.sights.of(memory)
        pauses, more = self._pauses(node)
        return Record(
            v=VERSION,
            now_us=self.now_us,
            policy_id=self.policy_id,
            policy_version=self.policy.version,
            judging=_judging(self.policy.detection),
            healing=_healing(view.recovery),
            believed=_believed(memory),
            subject=Subject(
                domain=node.domain,
                busy=node.busy,
                requested_by=node.requested_by,
                attempts=past.retry.attempts,
                next_us=past.retry.next_us,
                exhausted_us=past.retry.exhausted_us,
                healthy_us=past.healthy_us,
            ),
            desired_capacity=view.desired_capacity,
            nodes=kinds(planned.seen, node.domain),
            released_until_us=view.released_until_us,
            sight=Sight(
                asked=sight.asked,
                answered=sight.answered,
                references_asked=sight.references_asked,
                references_answered=sight.references_answered,
                road=sight.road,
            ),
            lost=view.lost,
            pauses=pauses,
            more_pauses=more,
            purses=tuple(
                _purse(key, bucket, self.limits[key[0]]) for key, bucket in planned.asked.items()
            ),
            host=node.host,
            hosts=view.hosts,
            left_out=node.left_out,
        )

    def _pauses(self, node: NodeView) -> tuple[tuple[Paused, ...], Mapping[PauseKind, int]]:
        kept: list[Paused] = []
        more: Counter[PauseKind] = Counter()
        view = self.view
        for kind in PauseKind:
            found = covering(view.pauses, kind, node.node_id, view.cluster_id, self.now_us)
            kept += [
                Paused(
                    id=p.id,
                    kind=p.kind,
                    scope=p.scope,
                    target_id=p.target_id,
                    owner=p.owner,
                    reason=p.reason,
                    starts_us=p.starts_us,
                    expires_us=p.expires_us,
                )
                for p in found[:PAUSES_MAX]
            ]
            more[kind] += max(0, len(found) - PAUSES_MAX)
        return tuple(kept), +more


def stored(decision: Decision, record: Record, memory: NodeMemory) -> Stored:
    """Return the row of a decision, with what it was made from among its inputs."""
    hold = decision if isinstance(decision, Hold) else None
    recover = decision if isinstance(decision, Recover) else None
    return Stored(
        cluster_id=decision.cluster_id,
        node_id=decision.node_id,
        kind="hold" if hold else "recover",
        reason=hold.reason.value if hold else None,
        numbers=dict(decision.numbers),
        inputs={
            "health": memory.health.value,
            "settled": memory.settled,
            "problem": diagnosis.explain(memory),
            "cause": recover.cause if recover else "",
            "overrode": [r.value for r in recover.overrode] if recover else [],
            "ladder": [a.name for a in recover.ladder] if recover else list(record.healing.actions),
            RECORD: pack(record),
        },
        policy_id=record.policy_id,
        policy_version=record.policy_version,
        at_us=record.now_us,
        until_us=hold.until_us if hold else None,
    )


def _judging(detection: Detection) -> Judging:
    return Judging(
        interval_s=detection.interval_s,
        node_update_timeout_s=detection.node_update_timeout_s,
        grace_ends_early=detection.grace_ends_early,
        conditional=detection.conditional,
        modes=tuple(map(_mode, voting(detection))),
    )


def _mode(mode: DetectionMode) -> Mode:
    url = mode.url
    timing = None if url is None else (url.timeout_s, url.retry_limit, url.retry_interval_s)
    return Mode(key=mode.key, type=mode.type, url=timing)


def _healing(recovery: Recovery) -> Healing:
    retry = recovery.retry
    return Healing(
        mode=recovery.mode,
        actions=tuple(a.name for a in recovery.actions),
        limits=recovery.limits,
        tries=Tries(
            attempts=retry.attempts,
            max_backoff_s=retry.max_backoff_s,
            stable_after_s=retry.stable_after_s,
        ),
    )


def _believed(memory: NodeMemory) -> Believed:
    return Believed(
        health=memory.health,
        settled=memory.settled,
        gray=memory.gray,
        grace_us=memory.grace_us,
        unheard_us=memory.unheard_us,
        mark=None if memory.mark is None else memory.mark.reason,
        heard=tuple(_heard(key, track) for key, track in memory.tracks.items()),
    )


def _heard(key: ModeKey, track: Track) -> Heard:
    last = track.last
    return Heard(
        mode=key,
        belief=track.belief,
        fails=track.fails,
        fell=track.fell,
        last=None
        if last is None
        else Answered(outcome=last.outcome, code=last.code, detail=last.detail, at_us=last.at_us),
    )


def _purse(key: Key, bucket: Bucket, limit: BudgetLimit) -> Budgets:
    scope, name = key
    return Budgets(
        scope=scope.value,
        key=name,
        tokens=bucket.tokens,
        updated_us=bucket.updated_us,
        in_flight=bucket.in_flight,
        max_in_flight=limit.max_in_flight,
        burst=limit.burst,
        per_hour=limit.per_hour,
    )
