"""Small builders of the core's values, so that a test names only what it is about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from yaffle.core.health.verdict import NodeMemory, observe
from yaffle.core.planning.budgets import Budgets
from yaffle.core.planning.cluster_view import ClusterView, NodeView
from yaffle.core.planning.planner import plan
from yaffle.core.planning.retry import FRESH, RetryState
from yaffle.model.health import Health, Observation, Outcome
from yaffle.model.ids import ClusterId, ModeKey, NodeId, PauseId
from yaffle.model.incident import Decision, Pause, PauseKind, PauseScope
from yaffle.model.policy import (
    Conditional,
    Detection,
    DetectionMode,
    Limits,
    ModeType,
    Recovery,
    RecoveryAction,
    RecoveryMode,
    Retry,
    Threshold,
    UrlOptions,
    WhenExceeded,
)

SECOND = 1_000_000
T0 = 1_700_000_000 * SECOND
STATUS = ModeKey("0:NODE_STATUS_POLLING")
URL = ModeKey("1:NODE_STATUS_POLL_URL")
CLUSTER = ClusterId("c")

MODES = {
    STATUS: DetectionMode(key=STATUS, type=ModeType.NODE_STATUS_POLLING),
    URL: DetectionMode(
        key=URL, type=ModeType.NODE_STATUS_POLL_URL, url=UrlOptions(poll_url="http://{node_ip}/")
    ),
}
CODES = {
    Outcome.PASS: "L7-OK",
    Outcome.WARN: "L7-WARN",
    Outcome.FAIL: "L4-TIMEOUT",
    Outcome.UNKNOWN: "X-LOCAL",
}


def detection(*keys: ModeKey, **changed: Any) -> Detection:
    """Interval 10 s, grace 60 s, rise 2, fall 3, ANY_FAILED; one status mode unless keys say so."""
    base = Detection(
        interval_s=10.0,
        node_update_timeout_s=60.0,
        grace_ends_early=True,
        conditional=Conditional.ANY_FAILED,
        rise=2,
        fall=3,
        confirm_status=False,
        modes=tuple(MODES[k] for k in keys or (STATUS,)),
    )
    return replace(base, **changed)


def observation(
    outcome: str, at_us: int = T0, *, mode: ModeKey = STATUS, **changed: Any
) -> Observation:
    """One answer; passes and warnings count as answered, the rest as silence."""
    said = Outcome(outcome)
    base = Observation(
        node_id=NodeId("n1"),
        mode=mode,
        outcome=said,
        code=CODES[said],
        detail=f"it says {outcome}",
        at_us=at_us,
        answered=said in {Outcome.PASS, Outcome.WARN},
    )
    return replace(base, **changed)


def memory(**changed: Any) -> NodeMemory:
    return replace(NodeMemory(node_id=NodeId("n1")), **changed)


def feed(
    before: NodeMemory,
    outcomes: Iterable[str],
    how: Detection,
    *,
    mode: ModeKey = STATUS,
    start_us: int = T0,
    every_s: float = 10.0,
) -> NodeMemory:
    """Observe the outcomes one after another, each judged at the moment it is known."""
    at_us = start_us
    for outcome in outcomes:
        before = observe(before, observation(outcome, at_us, mode=mode), how, at_us)
        at_us += int(every_s * SECOND)
    return before


def recovery(
    *actions: RecoveryAction,
    max_unhealthy: Threshold | None = None,
    when_exceeded: WhenExceeded = WhenExceeded.HOLD,
    max_in_flight: int = 2,
    domain: str | None = None,
    attempts: int = 3,
    **changed: Any,
) -> Recovery:
    """40 %, hold, two in flight, three attempts 60 s apart; RECREATE unless actions say so."""
    base = Recovery(
        mode=RecoveryMode.RECOVER,
        actions=actions or (RecoveryAction(name="RECREATE"),),
        fencing=(),
        node_delete_timeout_s=20.0,
        node_force_recreate=False,
        limits=Limits(
            max_unhealthy=max_unhealthy or Threshold(percent=40.0),
            when_exceeded=when_exceeded,
            max_in_flight=max_in_flight,
            domain=domain,
        ),
        retry=Retry(attempts=attempts, backoff_s=60.0, max_backoff_s=3600.0, stable_after_s=600.0),
    )
    return replace(base, **changed)


def node(name: str, health: str = "healthy", **changed: Any) -> NodeView:
    """A settled, free, untried node."""
    base = NodeView(
        node_id=NodeId(name), name=name, health=Health(health), settled=True, retry=FRESH
    )
    return replace(base, **changed)


def cluster(*nodes: NodeView, how: Recovery | None = None, **changed: Any) -> ClusterView:
    """A cluster whose desired capacity is the number of its nodes, unless `changed` says so."""
    base = ClusterView(
        cluster_id=CLUSTER,
        name="c",
        desired_capacity=len(nodes),
        nodes=nodes,
        recovery=how or recovery(),
    )
    return replace(base, **changed)


def decisions(view: ClusterView, now_us: int = T0) -> tuple[Decision, ...]:
    """What is decided where no budget is shared with others."""
    return tuple(p.decision for p in plan(view, Budgets(limits={}), now_us))


def pause(kind: str = "maintenance", scope: str = "all", target: str = "", **changed: Any) -> Pause:
    base = Pause(
        id=PauseId("p1"),
        kind=PauseKind(kind),
        scope=PauseScope(scope),
        target_id=target,
        owner="ann",
        reason="planned work",
        starts_us=T0,
        expires_us=None,
    )
    return replace(base, **changed)


def tried(attempts: int, **changed: Any) -> RetryState:
    return replace(FRESH, attempts=attempts, **changed)
