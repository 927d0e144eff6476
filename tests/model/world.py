"""A shell around the core in plain values: what the engine does with decisions, without an engine.

Stories (tests/scenarios) and the Hypothesis machine (tests/model) both play in it. It follows the
core's contract step by step: observe, conclude, plan, debit, start, end. It decides nothing itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tests.unit.core.build import SECOND, T0, detection, recovery

from yaffle.core.health.diagnosis import diagnose
from yaffle.core.health.verdict import NodeMemory, conclude, observe, resettle, restart, set_mark
from yaffle.core.planning.budgets import Bucket, BudgetLimit, Budgets, Key, Scope
from yaffle.core.planning.cluster_view import ClusterView, NodeView
from yaffle.core.planning.observer_partition import assess
from yaffle.core.planning.planner import plan
from yaffle.core.planning.retry import FRESH, RetryState, ended, exhausted, spent, stable, started
from yaffle.model.health import Health, Mark, Observation
from yaffle.model.ids import ClusterId, NodeId
from yaffle.model.incident import Decision, HoldReason, Pause, Recover
from yaffle.model.policy import Detection, Recovery

CLUSTER = ClusterId("c")


@dataclass(slots=True, kw_only=True)
class Member:
    """What the store would hold of one node."""

    memory: NodeMemory
    domain: str = ""
    retry: RetryState = FRESH
    recovering: bool = False
    busy: str = ""
    requested_by: str = ""


@dataclass(slots=True, kw_only=True)
class World:
    """One cluster, its policy and its operators, at one moment."""

    detection: Detection = field(default_factory=detection)
    recovery: Recovery = field(default_factory=recovery)
    now_us: int = T0
    members: dict[str, Member] = field(default_factory=dict)
    desired_capacity: int = 0
    pauses: list[Pause] = field(default_factory=list)
    released_until_us: int | None = None
    references: tuple[bool, ...] = ()
    lost: tuple[str, ...] = ()
    limits: Mapping[Scope, BudgetLimit] = field(default_factory=dict)
    buckets: Mapping[Key, Bucket] = field(default_factory=dict)

    def join(self, names: Iterable[str], domain: str = "") -> None:
        for name in names:
            memory = NodeMemory(node_id=NodeId(name), since_us=self.now_us)
            self.members[name] = Member(memory=memory, domain=domain)
        self.desired_capacity = len(self.members)

    # --- what is seen

    def see(self, name: str, seen: Observation) -> None:
        member = self.members[name]
        member.memory = observe(member.memory, seen, self.detection, self.now_us)

    def conclude(self) -> None:
        """Let the mere passing of time tell: grace, staleness, forgotten attempts."""
        for member in self.members.values():
            memory = conclude(member.memory, self.detection, self.now_us)
            since = memory.since_us if memory.health is Health.HEALTHY else None
            member.memory = memory
            member.retry = stable(member.retry, self.recovery.retry, since, self.now_us)

    def resettle(self) -> None:
        for member in self.members.values():
            member.memory = resettle(member.memory)

    def mark(self, name: str, mark: Mark | None) -> None:
        member = self.members[name]
        member.memory = set_mark(member.memory, mark, self.detection, self.now_us)

    # --- what is decided

    def view(self) -> ClusterView:
        self.conclude()
        memories = [m.memory for m in self.members.values()]
        return ClusterView(
            cluster_id=CLUSTER,
            name="c",
            desired_capacity=self.desired_capacity,
            nodes=tuple(self._node(name, m) for name, m in self.members.items()),
            recovery=self.recovery,
            pauses=tuple(self.pauses),
            released_until_us=self.released_until_us,
            blind=assess(memories, self.references),
            lost=self.lost,
        )

    def _node(self, name: str, member: Member) -> NodeView:
        memory = member.memory
        return NodeView(
            node_id=memory.node_id,
            name=name,
            health=memory.health,
            settled=memory.settled,
            busy=member.busy,
            recovering=member.recovering,
            domain=member.domain,
            retry=member.retry,
            marked=memory.mark is not None,
            requested_by=member.requested_by,
            problem=diagnose(memory).code,
        )

    def act(self) -> tuple[Decision, ...]:
        """Plan, then carry out: the decisions as they were made."""
        view = self.view()
        nodes = tuple(replace(n, draws_on=tuple(self.buckets)) for n in view.nodes)
        planned = tuple(plan(replace(view, nodes=nodes), self._budgets(), self.now_us))
        for one in planned:
            self.buckets = {**self.buckets, **one.debited}
            if isinstance(one.decision, Recover):
                self._start(one.decision)
        return tuple(one.decision for one in planned)

    def _budgets(self) -> Budgets:
        """Return the budgets with what is in flight counted, as admission reads them."""
        in_flight = sum(m.recovering for m in self.members.values())
        buckets = {key: replace(b, in_flight=in_flight) for key, b in self.buckets.items()}
        return Budgets(limits=self.limits, buckets=buckets)

    def _start(self, decision: Recover) -> None:
        member = self.members[decision.node_id]
        if HoldReason.NEEDS_HUMAN in decision.overrode:
            member.retry = FRESH  # the person who asks has seen it
        member.retry = started(member.retry, self.recovery.retry, self.now_us)
        member.recovering, member.busy, member.requested_by = True, "NODE_RECOVER", ""

    def end(self, name: str, *, well: bool) -> None:
        """End a recovery; one that went well begins a new life, the last that did not needs a human."""
        member = self.members[name]
        member.recovering, member.busy = False, ""
        member.retry = ended(member.retry, self.recovery.retry, self.now_us)
        if well:
            member.memory = restart(member.memory, self.now_us)
        elif spent(member.retry, self.recovery.retry):
            member.retry = exhausted(member.retry, self.now_us)

    def pass_time(self, seconds: float) -> None:
        self.now_us += int(seconds * SECOND)
