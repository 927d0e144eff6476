"""Parsed deletion, scaling and batch policies.

Durations are seconds. Every field has its final value here; no default is applied later.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Criteria(StrEnum):
    """Order in which a shrinking cluster gives up its sound nodes (Senlin's deletion policy)."""

    OLDEST_FIRST = "OLDEST_FIRST"
    OLDEST_PROFILE_FIRST = "OLDEST_PROFILE_FIRST"
    YOUNGEST_FIRST = "YOUNGEST_FIRST"
    RANDOM = "RANDOM"


class HookType(StrEnum):
    """Channel that tells somebody before a node is removed; `zaqar` is read but cannot be served here."""

    ZAQAR = "zaqar"
    WEBHOOK = "webhook"


class AdjustmentType(StrEnum):
    """Meaning of the number of a resize or of a scaling policy."""

    EXACT_CAPACITY = "EXACT_CAPACITY"
    CHANGE_IN_CAPACITY = "CHANGE_IN_CAPACITY"
    CHANGE_IN_PERCENTAGE = "CHANGE_IN_PERCENTAGE"


class ScalingEvent(StrEnum):
    """The action that a scaling policy speaks about; the same words as the actions' names."""

    CLUSTER_SCALE_IN = "CLUSTER_SCALE_IN"
    CLUSTER_SCALE_OUT = "CLUSTER_SCALE_OUT"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """A lifecycle hook: `url` is told, and the removal waits up to `timeout_s` to be completed."""

    type: HookType
    url: str
    timeout_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionPolicy:
    """One parsed `senlin.policy.deletion` document."""

    version: str
    criteria: Criteria
    destroy_after_deletion: bool
    """False: a removed node stays, without a cluster."""
    grace_period_s: int
    """Between the decision and the removal."""
    reduce_desired_capacity: bool
    """False: the cluster still wants as many nodes as before."""
    hook: Hook | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjustment:
    """Change that a scaling policy makes to a cluster's size."""

    type: AdjustmentType
    number: float
    """Nodes, or percent; always positive, since the event says the direction."""
    min_step: int
    """The least change in nodes that a percentage makes."""
    best_effort: bool
    """Go as far as the cluster's bounds allow instead of refusing."""
    cooldown_s: int
    """After a scaling action, how long the next one is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPolicy:
    """One parsed `senlin.policy.scaling` document."""

    version: str
    event: ScalingEvent
    adjustment: Adjustment


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPolicy:
    """One parsed `senlin.policy.batch` document."""

    version: str
    min_in_service: int
    """ACTIVE nodes that an update leaves alone at any time."""
    max_batch_size: int
    """-1: as many as `min_in_service` allows."""
    pause_s: int
    """Between two batches."""
