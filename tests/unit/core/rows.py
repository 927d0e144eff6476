"""Plays one planning pass as admission does, from memories to rows, with no database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.unit.core.build import CLUSTER, SECOND, T0, detection, feed, memory, recovery

from yaffle.core.decision_audit.capture import Pass, Past, stored
from yaffle.core.decision_audit.schema import Stored
from yaffle.core.health import diagnosis
from yaffle.core.health.verdict import NodeMemory, conclude
from yaffle.core.planning.budgets import Bucket, BudgetLimit, Budgets, Key, Scope
from yaffle.core.planning.cluster_view import ClusterView, NodeView
from yaffle.core.planning.host_attribution import HostReport
from yaffle.core.planning.observer_partition import Sights, bearings, by_road, is_blind
from yaffle.core.planning.planner import plan
from yaffle.core.planning.retry import FRESH, RetryState, stable
from yaffle.model.health import Health
from yaffle.model.ids import NodeId
from yaffle.model.incident import Pause
from yaffle.model.policy import Detection, HealthPolicy, Recovery

LIMITS: Mapping[Scope, BudgetLimit] = {
    scope: BudgetLimit(max_in_flight=5, burst=5, per_hour=60.0) for scope in Scope
}
DRAWN_ON: tuple[Key, ...] = ((Scope.GLOBAL, "all"), (Scope.CLUSTER, CLUSTER))


@dataclass(frozen=True, kw_only=True)
class Member:
    """One node as the database and its watch know it."""

    name: str
    memory: NodeMemory
    retry: RetryState = FRESH
    healthy_us: int | None = None
    busy: str = ""
    recovering: bool = False
    domain: str = ""
    requested_by: str = ""
    host: HostReport | None = None
    left_out: tuple[str, ...] = ()


def member(name: str, seen: Sequence[str] = ("fail",) * 3, **changed: Any) -> Member:
    """A node that said `seen`, every 10 s until just before T0, and was healthy before."""
    how = changed.pop("how", detection())
    before = changed.pop("before", memory(health=Health.HEALTHY, settled=True))
    start_us = T0 - 10 * SECOND * len(seen)
    return Member(name=name, memory=feed(before, seen, how, start_us=start_us), **changed)


def well(name: str, **changed: Any) -> Member:
    return member(name, ("pass",) * 2, **changed)


@dataclass(frozen=True, kw_only=True)
class World:
    """Everything that one pass is made from."""

    members: tuple[Member, ...]
    detection: Detection = field(default_factory=detection)
    recovery: Recovery = field(default_factory=recovery)
    desired: int | None = None
    pauses: tuple[Pause, ...] = ()
    released_until_us: int | None = None
    lost: tuple[str, ...] = ()
    references: tuple[bool, ...] = ()
    answers: bool = True
    """Whether somebody answered, whatever the memories say; silence is what blinds."""
    roads: tuple[str, ...] = ()
    """Counted by themselves, as the memories say."""
    hosts: int = 0
    buckets: Mapping[Scope, Bucket] | None = None
    limits: Mapping[Scope, BudgetLimit] | None = None


def _view(world: World, who: Member, seen: NodeMemory, sights: Sights) -> NodeView:
    well_us = who.healthy_us if seen.health is Health.HEALTHY else None
    sight = sights.of(seen)
    return NodeView(
        node_id=NodeId(who.name),
        name=who.name,
        health=seen.health,
        settled=seen.settled,
        busy=who.busy,
        recovering=who.recovering,
        domain=who.domain if world.recovery.limits.domain else "",
        retry=stable(who.retry, world.recovery.retry, well_us, T0),
        marked=seen.mark is not None,
        host=who.host,
        left_out=who.left_out,
        blind=sight if is_blind(sight) else None,
        requested_by=who.requested_by,
        problem=diagnosis.diagnose(seen).code,
        draws_on=DRAWN_ON,
    )


def play(world: World) -> list[Stored]:
    """Return the rows that one pass writes."""
    memories = {m.name: conclude(m.memory, world.detection, T0) for m in world.members}
    sight = bearings(memories.values(), world.references)
    if world.answers:
        sight = replace(sight, answered=max(1, sight.answered))
    sights = Sights(whole=sight, roads=by_road(memories.values(), world.roads))
    view = ClusterView(
        cluster_id=CLUSTER,
        name="c",
        desired_capacity=len(world.members) if world.desired is None else world.desired,
        nodes=tuple(_view(world, m, memories[m.name], sights) for m in world.members),
        recovery=world.recovery,
        pauses=world.pauses,
        released_until_us=world.released_until_us,
        blind=sight if is_blind(sight) else None,
        lost=world.lost,
        hosts=world.hosts,
    )
    made_from = Pass(
        view=view,
        policy=HealthPolicy(version="1.3", detection=world.detection, recovery=world.recovery),
        policy_id="p",
        sights=sights,
        limits=world.limits or LIMITS,
        now_us=T0,
    )
    return _rows(world, made_from, memories)


def _rows(world: World, made_from: Pass, memories: Mapping[str, NodeMemory]) -> list[Stored]:
    found: list[Stored] = []
    members = {m.name: m for m in world.members}
    full = Bucket(tokens=5.0, updated_us=T0)
    purse = {key: (world.buckets or {}).get(key[0], full) for key in DRAWN_ON}
    budgets = Budgets(limits=world.limits or LIMITS, buckets=purse)
    for planned in plan(made_from.view, budgets, T0):
        who = members[planned.node.name]
        past = Past(retry=who.retry, healthy_us=who.healthy_us)
        record = made_from.record(planned, past, memories[who.name])
        found.append(stored(planned.decision, record, memories[who.name]))
    return found
