"""Looks at a whole cluster once and says, for each unhealthy node, `Recover` or `Hold`.

Not acting is a decision like any other: it carries a reason from a closed enum and the numbers that
decided, is stored, and is what `yaffle why` prints. The same view gives the same decisions in the
same order on every run, so that a checker can recompute them from what was stored.

A recovery decided earlier in the pass counts as in flight for the nodes after it: one pass can
never exceed the caps, whatever the number of sick nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from yaffle.core.brakes import BRAKES, Finding, Tally, is_sick, is_suspect, tally
from yaffle.model.health import Health
from yaffle.model.incident import Decision, Hold, HoldReason, Recover

if TYPE_CHECKING:
    from yaffle.core.view import ClusterView, NodeView


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The decisions of one pass, and when to look again if nothing else happens."""

    decisions: tuple[Decision, ...]
    wake_us: int | None


def candidates(view: ClusterView) -> list[NodeView]:
    """Return the nodes that need a decision: unhealthy or asked for, and not in recovery already.

    Whom a person asked for comes first: requests are few and must not starve behind a storm.
    """
    wanted = (
        n
        for n in view.nodes
        if not n.recovering and not n.outdated and (n.health is Health.UNHEALTHY or n.requested_by)
    )
    return sorted(wanted, key=lambda n: (not n.requested_by, n.name, n.node_id))


def plan(view: ClusterView, now_us: int) -> Plan:
    """Decide for every candidate of the cluster."""
    counts = tally(view, now_us)
    decisions: list[Decision] = []
    for node in candidates(view):
        decision = _decide(view, node, counts, now_us)
        if isinstance(decision, Recover):
            counts = _with_one_more(counts, node)
        decisions.append(decision)
    wakes = [d.until_us for d in decisions if isinstance(d, Hold) and d.until_us is not None]
    return Plan(decisions=tuple(decisions), wake_us=min(wakes, default=None))


def _with_one_more(counts: Tally, node: NodeView) -> Tally:
    # An unhealthy node is counted as sick already; one that a person asked for becomes so now.
    newly_sick = not is_sick(node)
    was_suspect = is_suspect(node)
    domains = dict(counts.domains)
    if node.domain in domains:
        sick, suspect, threshold = domains[node.domain]
        domains[node.domain] = (sick + newly_sick, suspect - was_suspect, threshold)
    return replace(
        counts,
        in_flight=counts.in_flight + 1,
        sick=counts.sick + newly_sick,
        suspect=counts.suspect - was_suspect,
        domains=domains,
    )


def _decide(view: ClusterView, node: NodeView, counts: Tally, now_us: int) -> Decision:
    overrode: list[HoldReason] = []
    for brake in BRAKES:
        finding = brake.holds(view, node, counts, now_us)
        if finding is None:
            continue
        if node.requested_by and (brake.by_request or _moot(brake.reason, node)):
            overrode.append(brake.reason)
            continue
        return _hold(view, node, brake.reason, finding)
    return Recover(
        node_id=node.node_id,
        cluster_id=view.cluster_id,
        ladder=view.recovery.actions,
        cause=f"requested by {node.requested_by}" if node.requested_by else node.problem,
        numbers=_numbers(view, counts, node),
        overrode=tuple(overrode),
    )


def _moot(reason: HoldReason, node: NodeView) -> bool:
    """A person's word on a node not judged unhealthy needs no settled verdict to rest on."""
    return reason is HoldReason.RESETTLING and node.health is not Health.UNHEALTHY


def _hold(view: ClusterView, node: NodeView, reason: HoldReason, finding: Finding) -> Hold:
    return Hold(
        node_id=node.node_id,
        cluster_id=view.cluster_id,
        reason=reason,
        numbers=finding.numbers,
        until_us=finding.until_us,
    )


VOLATILE: Final = frozenset({"left_s", "holders"})
"""Numbers that change by themselves while nothing changes."""
COUNTS: Final = frozenset({"sick", "suspect", "in_flight", "asked", "answered"})
"""Numbers that are stored anew only when they about double or halve."""


def bucket(decision: Hold) -> tuple[str, ...]:
    """Return what must change before a hold is worth storing again (DESIGN §1.3)."""
    parts = [
        f"{key}~{value.bit_length()}"
        if key in COUNTS and isinstance(value, int)
        else f"{key}={value}"
        for key, value in sorted(decision.numbers.items())
        if key not in VOLATILE
    ]
    # To the minute: what is stored must not promise an end that has passed.
    until = () if decision.until_us is None else (f"until={decision.until_us // 60_000_000}",)
    return (decision.reason.value, *parts, *until)


def _numbers(view: ClusterView, counts: Tally, node: NodeView) -> dict[str, object]:
    return {
        "sick": counts.sick,
        "suspect": counts.suspect,
        "threshold": counts.threshold,
        "in_flight": counts.in_flight,
        "max_in_flight": view.recovery.limits.max_in_flight,
        "attempt": node.retry.attempts + 1,
        "attempts_allowed": view.recovery.retry.attempts,
    }
