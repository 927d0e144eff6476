"""Decisions, holds, incidents and pauses."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yaffle.model.ids import ClusterId, NodeId, PauseId
    from yaffle.model.policy import RecoveryAction


class HoldReason(StrEnum):
    """Why an unhealthy node is left alone; one runbook page each."""

    STOPPED = "stopped"
    MAINTENANCE = "maintenance"
    DEPENDENCY_LOST = "dependency-lost"
    BLIND = "blind"
    RESETTLING = "resettling"
    NODE_BUSY = "node-busy"
    NEEDS_HUMAN = "needs-human"
    COOLING_DOWN = "cooling-down"
    HOST_UNCLEAR = "host-unclear"
    STORM = "storm"
    DOMAIN_STORM = "domain-storm"
    OBSERVE_MODE = "observe-mode"
    IN_FLIGHT = "in-flight"
    RATE = "rate"


class IncidentState(StrEnum):
    """State of an incident: how it stands, or how it ended (design/failure#outcome)."""

    OPEN = "open"
    HELD = "held"
    RECOVERING = "recovering"
    RECOVERED = "recovered"
    ALREADY_HEALTHY = "already-healthy"
    EXHAUSTED = "exhausted"
    SUPERSEDED = "superseded"


class PauseKind(StrEnum):
    """Planned work on something, or the global stop."""

    MAINTENANCE = "maintenance"
    STOP = "stop"


class PauseScope(StrEnum):
    """Scope of a pause."""

    NODE = "node"
    CLUSTER = "cluster"
    HOST = "host"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """An operator's reason not to act: owner, reason, scope, expiry. Several may overlap."""

    id: PauseId
    kind: PauseKind
    scope: PauseScope
    target_id: str
    """Node or cluster id; of a host its names, with blanks between them; empty for ALL."""
    owner: str
    reason: str
    starts_us: int
    expires_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recover:
    """Act on this node. `overrode` names the guards that a person's request lifted."""

    node_id: NodeId
    cluster_id: ClusterId
    ladder: tuple[RecoveryAction, ...]
    cause: str
    numbers: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    overrode: tuple[HoldReason, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Leave this node alone, because of `reason`, with the numbers that decided it."""

    node_id: NodeId
    cluster_id: ClusterId
    reason: HoldReason
    numbers: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    until_us: int | None = None
    """When the reason ends by itself, if that is known."""


Decision = Recover | Hold
