"""The planner: looks at a whole cluster once and returns `Recover` or `Hold` for each unhealthy node.

Not acting is a decision like any other: it carries a reason from a closed enum and the numbers that
decided, is stored, and is what `yaffle why` prints. The same view gives the same decisions in the
same order on every run, so that a checker can recompute them from what was stored.

A recovery decided earlier in the pass counts as in flight for the nodes after it: one pass can
never exceed the caps, whatever the number of unhealthy nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from yaffle.core.planning.budgets import Refusal, debit
from yaffle.core.planning.guards import (
    GUARDS,
    GroupCounts,
    GuardVerdict,
    NodeCounts,
    cell_of,
    count_nodes,
    left_out_of,
    numbers_of,
    tally,
    with_recovery,
)
from yaffle.core.planning.host_attribution import Fault, is_lost, ladder_of
from yaffle.core.recovery.ladder import without
from yaffle.model.health import Health
from yaffle.model.incident import Decision, Hold, HoldReason, Recover

if TYPE_CHECKING:
    from yaffle.core.planning.budgets import Bucket, BudgetLimit, Budgets, Key, Scope
    from yaffle.core.planning.cluster_view import ClusterView, NodeView


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """The decision about one node, and what it was made from."""

    node: NodeView
    decision: Decision
    seen: NodeCounts
    """The cluster's nodes as the guards counted them."""
    asked: Mapping[Key, Bucket]
    """The budgets as they were asked; empty where a guard held the node already."""
    debited: Mapping[Key, Bucket]
    """The budgets after the debit, to be stored with the recovery; empty for a hold."""


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


def plan(view: ClusterView, budgets: Budgets, now_us: int) -> Iterator[Planned]:
    """Decide for every candidate, one after another.

    Only a recovery that the budgets let pass counts as in flight for the nodes after it: one that
    was refused is none, and nobody is to be told that it is under way.
    """
    seen = count_nodes(view, now_us)
    counts = tally(seen, view.recovery.limits, view.desired_capacity)
    for node in candidates(view):
        decision = decide(view, node, counts, now_us)
        asked = {key: budgets.buckets[key] for key in node.draws_on} if _passed(decision) else {}
        decision, debited = within_budgets(decision, asked, budgets.limits, now_us)
        yield Planned(node=node, decision=decision, seen=seen, asked=asked, debited=debited)
        if isinstance(decision, Recover):
            budgets = budgets.spent(debited)
            seen = with_recovery(seen, cell_of(view, node, now_us))
            counts = tally(seen, view.recovery.limits, view.desired_capacity)


def wake_of(decisions: Iterable[Decision]) -> int | None:
    """Return when to plan again if nothing else happens: at the first end of a hold."""
    ends = (d.until_us for d in decisions if isinstance(d, Hold) and d.until_us is not None)
    return min(ends, default=None)


def _passed(decision: Decision) -> bool:
    """Whether the guards let the node through; a policy that only observes holds it all the same."""
    return isinstance(decision, Recover) or decision.reason is HoldReason.OBSERVE_MODE


def within_budgets(
    decision: Decision,
    asked: Mapping[Key, Bucket],
    limits: Mapping[Scope, BudgetLimit],
    now_us: int,
) -> tuple[Decision, Mapping[Key, Bucket]]:
    """Return what the budgets make of a decision, and the buckets that its recovery leaves.

    A policy that only observes is told of a refusal, and takes nothing.
    """
    if not _passed(decision):
        return decision, {}
    after = debit(asked, limits, now_us)
    if isinstance(after, Refusal):
        refused = Hold(
            node_id=decision.node_id,
            cluster_id=decision.cluster_id,
            reason=after.reason,
            numbers=after.numbers,
            until_us=after.until_us,
        )
        return refused, {}
    return decision, after if isinstance(decision, Recover) else {}


def decide(view: ClusterView, node: NodeView, counts: GroupCounts, now_us: int) -> Decision:
    """Return the decision about one candidate, given the counts so far."""
    overrode: list[HoldReason] = []
    for guard in GUARDS:
        finding = guard.holds(view, node, counts, now_us)
        if finding is None:
            continue
        if node.requested_by and (guard.by_request or _moot(guard.reason, node)):
            overrode.append(guard.reason)
            continue
        return _hold(view, node, guard.reason, finding)
    # A person who asks for a node means what the policy, or they themselves, say is done to it.
    host = None if node.requested_by else node.host
    problem = HOST_LOST if is_lost(host) else node.problem
    return Recover(
        node_id=node.node_id,
        cluster_id=view.cluster_id,
        ladder=without(ladder_of(view.recovery.actions, host), left_out_of(node)),
        cause=f"requested by {node.requested_by}" if node.requested_by else problem,
        numbers=numbers_of(view, node, counts),
        overrode=tuple(overrode),
    )


def _moot(reason: HoldReason, node: NodeView) -> bool:
    """Whether a guard does not apply: a person's request needs no settled verdict of the node."""
    return reason is HoldReason.RESETTLING and node.health is not Health.UNHEALTHY


def _hold(view: ClusterView, node: NodeView, reason: HoldReason, finding: GuardVerdict) -> Hold:
    return Hold(
        node_id=node.node_id,
        cluster_id=view.cluster_id,
        reason=reason,
        numbers=finding.numbers,
        until_us=finding.until_us,
    )


HOST_LOST: Final = Fault.HOST_LOST.value
"""What a recovery names as its cause where the node has failed with its host."""
VOLATILE: Final = frozenset({"left_s", "holders"})
"""Numbers that change by themselves while nothing changes."""
COUNTS: Final = frozenset({"sick", "suspect", "in_flight", "asked", "answered"})
"""Numbers that are stored anew only when they about double or halve."""


def bucket(decision: Hold) -> tuple[str, ...]:
    """Return what must change before a hold is worth storing again (design/failure#guards)."""
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
