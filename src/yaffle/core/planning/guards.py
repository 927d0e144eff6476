"""The table of guards: each may hold a recovery, says why with its numbers, and who may lift it.

Rows are asked in order and the first that holds gives the reason. `by_request`: lifted when a person
asks for that very node (storm, cool-down, exhaustion and observe mode; never the global stop,
maintenance, blindness, a lost dependency or the in-flight cap: design/failure#guards).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import ceil
from typing import TYPE_CHECKING, Final

from yaffle.core.planning.host_attribution import (
    BY_HOST,
    Fault,
    is_lost,
    judge,
    ladder_of,
    may_count_as_one,
)
from yaffle.core.planning.pauses import covering
from yaffle.core.planning.retry import allowed_once_spent, spent
from yaffle.core.recovery.ladder import without
from yaffle.model.health import Health
from yaffle.model.incident import HoldReason, PauseKind
from yaffle.model.policy import RecoveryMode, Threshold, WhenExceeded

if TYPE_CHECKING:
    from yaffle.core.planning.cluster_view import ClusterView, NodeView
    from yaffle.model.policy import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardVerdict:
    """The verdict of a guard that holds: its numbers, and when it ends by itself, if that is known."""

    numbers: Mapping[str, object]
    until_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """The attributes by which guards count nodes of a cluster together."""

    health: Health
    recovering: bool
    planned: bool
    """Under maintenance: what becomes of it is no storm, but its recovery is still one in flight."""
    domain: str
    """Empty where the policy knows no failure domains."""
    host: str = ""
    """The lost host that it failed with, where all of that host counts as one failure."""


NodeCounts = Mapping[NodeGroup, int]
"""How many nodes there are of each kind: all that is counted, however large the cluster is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCounts:
    """Counts of a cluster's nodes: made once, and anew after each recovery decided."""

    sick: int
    suspect: int
    threshold: int
    in_flight: int
    domains: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    """Per failure domain: unhealthy, suspect, threshold."""
    hosts: int = 0
    """Lost hosts among `sick`, each counted as one."""


@dataclass(frozen=True, slots=True)
class Guard:
    """One row of the table of guards."""

    reason: HoldReason
    by_request: bool
    holds: Callable[[ClusterView, NodeView, GroupCounts, int], GuardVerdict | None]


def threshold_of(limit: Threshold, capacity: int) -> int:
    """Return how many may be unhealthy before the guard holds, one at least (design/failure#guards)."""
    if limit.count is not None:
        return max(1, limit.count)
    # Tenths of a percent as integers: 40 % of 5 is 2, never 2.0000000000000004 rounded up to 3.
    tenths = round((limit.percent or 0.0) * 10)
    return max(1, ceil(tenths * capacity / 1000))


def as_one(view: ClusterView) -> frozenset[str]:
    """Return the lost hosts that count as one failure each, however many nodes failed with them.

    A policy whose failure domain is the host limits by host already, and says itself how many.
    """
    lost = frozenset(n.host.name for n in view.nodes if n.host is not None and is_lost(n.host))
    limits = view.recovery.limits
    allowed = threshold_of(limits.max_unhealthy, view.hosts)
    if limits.domain == BY_HOST or not may_count_as_one(len(lost), view.hosts, allowed):
        return frozenset()
    return lost


def cell_of(
    view: ClusterView, node: NodeView, now_us: int, whole: frozenset[str] | None = None
) -> NodeGroup:
    """Return the group of a node; the storm limit does not count planned work as failures.

    `whole`: what `as_one` says, where it is known already.
    """
    kind = PauseKind.MAINTENANCE
    name = node.host.name if node.host is not None and is_lost(node.host) else ""
    return NodeGroup(
        health=node.health,
        recovering=node.recovering,
        planned=bool(view.pauses)
        and bool(covering(view.pauses, kind, node.node_id, view.cluster_id, now_us)),
        domain="" if view.recovery.limits.domain is None else node.domain,
        host=name if name and name in (as_one(view) if whole is None else whole) else "",
    )


def count_nodes(view: ClusterView, now_us: int) -> NodeCounts:
    """Count the nodes of each group."""
    whole = as_one(view)
    return Counter(cell_of(view, node, now_us, whole) for node in view.nodes)


def with_recovery(seen: NodeCounts, cell: NodeGroup) -> NodeCounts:
    """Return the counts with one node of that group in recovery, as it is once it is admitted."""
    after = Counter(seen)
    after[cell] -= 1
    after[replace(cell, recovering=True)] += 1
    return +after


def is_sick(node: NodeView | NodeGroup) -> bool:
    """Whether the node is unhealthy or recovering; both count, so that healing makes no room for more."""
    return node.health is Health.UNHEALTHY or node.recovering


def is_suspect(node: NodeView | NodeGroup) -> bool:
    """Whether the node is suspect and not counted as unhealthy already."""
    return node.health is Health.SUSPECT and not is_sick(node)


def tally(seen: NodeCounts, limits: Limits, desired_capacity: int) -> GroupCounts:
    """Sum up the counts of the groups."""
    sick: Counter[str] = Counter()
    suspect: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    hosts = {(c.domain, c.host) for c in seen if c.host and not c.planned and _ails(c)}
    for domain, _ in hosts:
        sick[domain] += 1
    for cell, count in seen.items():
        if cell.planned:
            continue
        sizes[cell.domain] += count
        if cell.host:
            continue
        sick[cell.domain] += count * is_sick(cell)
        suspect[cell.domain] += count * is_suspect(cell)
    return GroupCounts(
        sick=sick.total(),
        suspect=suspect.total(),
        threshold=threshold_of(limits.max_unhealthy, desired_capacity),
        in_flight=sum(n for c, n in seen.items() if c.recovering),
        domains={
            name: (sick[name], suspect[name], threshold_of(limits.max_unhealthy, size))
            for name, size in sorted(sizes.items())
            if name and limits.domain is not None
        },
        hosts=len(hosts),
    )


def _ails(node: NodeView | NodeGroup) -> bool:
    return is_sick(node) or is_suspect(node)


def numbers_of(view: ClusterView, node: NodeView, seen: GroupCounts) -> Mapping[str, object]:
    """Return the numbers of a recovery: of one that is decided, and of one that only would be."""
    return {
        "sick": seen.sick,
        "suspect": seen.suspect,
        "threshold": seen.threshold,
        "in_flight": seen.in_flight,
        "max_in_flight": view.recovery.limits.max_in_flight,
        "attempt": node.retry.attempts + 1,
        "attempts_allowed": view.recovery.retry.attempts,
        **_of_host(node, seen),
        **({"left_out": list(left_out_of(node))} if left_out_of(node) else {}),
    }


def left_out_of(node: NodeView) -> tuple[str, ...]:
    """Return the rungs that are not tried on a copy that is gone; a person's word leaves none out."""
    return () if node.requested_by else node.left_out


def _of_host(node: NodeView, seen: GroupCounts) -> Mapping[str, object]:
    """Return the numbers of a lost host: its own, and how many such were counted as one failure."""
    host = node.host
    if host is None or not is_lost(host):
        return {"lost_hosts": seen.hosts} if seen.hosts else {}
    return {
        "host": host.name,
        "host_sick": host.sick,
        "host_suspect": host.suspect,
        "host_watched": host.watched,
        "lost_hosts": seen.hosts,
    }


def _paused(
    kind: PauseKind,
) -> Callable[[ClusterView, NodeView, GroupCounts, int], GuardVerdict | None]:
    def holds(
        view: ClusterView, node: NodeView, _tally: GroupCounts, now_us: int
    ) -> GuardVerdict | None:
        found = covering(view.pauses, kind, node.node_id, view.cluster_id, now_us)
        if not found:
            return None
        first = found[0]
        numbers: dict[str, object] = {
            "pause": first.id,
            "scope": first.scope.value,
            "owner": first.owner,
            "reason": first.reason,
            "holders": len(found),
        }
        return GuardVerdict(numbers=numbers, until_us=first.expires_us)

    return holds


def _lost(
    view: ClusterView, _node: NodeView, _tally: GroupCounts, _now_us: int
) -> GuardVerdict | None:
    return GuardVerdict(numbers={"lost": list(view.lost)}) if view.lost else None


def _blind(
    view: ClusterView, node: NodeView, _tally: GroupCounts, _now_us: int
) -> GuardVerdict | None:
    # A mark needs no observation, so no single road matters to it.
    seen = view.blind or (None if node.marked else node.blind)
    if seen is None:
        return None
    numbers = {
        "asked": seen.asked,
        "answered": seen.answered,
        "references_asked": seen.references_asked,
        "references_answered": seen.references_answered,
    }
    return GuardVerdict(numbers={**numbers, "road": seen.road} if seen.road else numbers)


def _resettling(
    _view: ClusterView, node: NodeView, _tally: GroupCounts, _now: int
) -> GuardVerdict | None:
    # A mark needs no observation, so it has nothing to settle.
    return None if node.settled or node.marked else GuardVerdict(numbers={})


def _busy(
    _view: ClusterView, node: NodeView, _tally: GroupCounts, _now_us: int
) -> GuardVerdict | None:
    return GuardVerdict(numbers={"action": node.busy}) if node.busy else None


def _needs_human(
    view: ClusterView, node: NodeView, _tally: GroupCounts, _now: int
) -> GuardVerdict | None:
    retry = view.recovery.retry
    if node.retry.exhausted_us is None and not spent(node.retry, retry):
        return None
    attempts = node.retry.attempts
    allowed = allowed_once_spent(attempts, retry.attempts)
    return GuardVerdict(numbers={"attempts": attempts, "allowed": allowed})


def _cooling(
    view: ClusterView, node: NodeView, _tally: GroupCounts, now_us: int
) -> GuardVerdict | None:
    until = node.retry.next_us
    if until is None or now_us >= until:
        return None
    # A wall clock that was set back must not make a rest longer than the longest rest there is.
    if until - now_us > view.recovery.retry.max_backoff_s * 1_000_000:
        return None
    return GuardVerdict(
        numbers={
            "attempts": node.retry.attempts,
            "allowed": view.recovery.retry.attempts,
            "left_s": round((until - now_us) / 1e6, 1),
        },
        until_us=until,
    )


def _host_unclear(
    view: ClusterView, node: NodeView, _seen: GroupCounts, now_us: int
) -> GuardVerdict | None:
    if view.released_until_us is not None and now_us < view.released_until_us:
        return None
    host = node.host
    if host is None or judge(host) is not Fault.HOST_UNCLEAR:
        return None
    return GuardVerdict(
        numbers={
            "host": host.name,
            "word": host.word.value,
            "sick": host.sick,
            "suspect": host.suspect,
            "watched": host.watched,
            "alive": host.alive,
        }
    )


def _storm(
    view: ClusterView, _node: NodeView, seen: GroupCounts, now_us: int
) -> GuardVerdict | None:
    if view.released_until_us is not None and now_us < view.released_until_us:
        return None
    # Suspects count: in a correlated failure the others are only a check or two behind.
    if seen.sick + seen.suspect <= seen.threshold:
        return None
    if view.recovery.limits.when_exceeded is WhenExceeded.SLOW and seen.in_flight == 0:
        return None
    return GuardVerdict(
        numbers={
            "sick": seen.sick,
            "suspect": seen.suspect,
            "threshold": seen.threshold,
            "capacity": view.desired_capacity,
            "in_flight": seen.in_flight,
            **({"lost_hosts": seen.hosts} if seen.hosts else {}),
        }
    )


def _domain_storm(
    view: ClusterView, node: NodeView, seen: GroupCounts, now_us: int
) -> GuardVerdict | None:
    if view.released_until_us is not None and now_us < view.released_until_us:
        return None
    if node.domain not in seen.domains:
        return None
    sick, suspect, threshold = seen.domains[node.domain]
    if sick + suspect <= threshold:
        return None
    if view.recovery.limits.when_exceeded is WhenExceeded.SLOW and seen.in_flight == 0:
        return None
    return GuardVerdict(
        numbers={"domain": node.domain, "sick": sick, "suspect": suspect, "threshold": threshold}
    )


def _observing(
    view: ClusterView, node: NodeView, seen: GroupCounts, _now: int
) -> GuardVerdict | None:
    if view.recovery.mode is not RecoveryMode.OBSERVE:
        return None
    host = None if node.requested_by else node.host
    rungs = without(ladder_of(view.recovery.actions, host), left_out_of(node))
    would = [a.name for a in rungs]
    return GuardVerdict(numbers={"would": would, **numbers_of(view, node, seen)})


def _in_flight(
    view: ClusterView, _node: NodeView, seen: GroupCounts, _now: int
) -> GuardVerdict | None:
    limit = view.recovery.limits.max_in_flight
    if seen.in_flight < limit:
        return None
    return GuardVerdict(numbers={"in_flight": seen.in_flight, "limit": limit})


GUARDS: Final[tuple[Guard, ...]] = (
    Guard(HoldReason.STOPPED, False, _paused(PauseKind.STOP)),
    Guard(HoldReason.MAINTENANCE, False, _paused(PauseKind.MAINTENANCE)),
    Guard(HoldReason.DEPENDENCY_LOST, False, _lost),
    Guard(HoldReason.BLIND, False, _blind),
    Guard(HoldReason.NODE_BUSY, False, _busy),
    Guard(HoldReason.RESETTLING, False, _resettling),
    Guard(HoldReason.NEEDS_HUMAN, True, _needs_human),
    Guard(HoldReason.COOLING_DOWN, True, _cooling),
    Guard(HoldReason.HOST_UNCLEAR, True, _host_unclear),
    Guard(HoldReason.STORM, True, _storm),
    Guard(HoldReason.DOMAIN_STORM, True, _domain_storm),
    Guard(HoldReason.IN_FLIGHT, False, _in_flight),
    # The last: what it holds is exactly what would have been done.
    Guard(HoldReason.OBSERVE_MODE, True, _observing),
)
"""HoldReason.RATE is not here: admission debits budgets in its transaction (`core.planning.budgets`)."""
