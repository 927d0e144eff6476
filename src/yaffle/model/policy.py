"""A parsed health policy, as `core/` and the drivers read it.

Durations are seconds. Every field has its final value here; no default is applied later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from yaffle.model.ids import ModeKey


class ModeType(StrEnum):
    """The detection modes of Senlin, LB_STATUS_POLLING included."""

    NODE_STATUS_POLLING = "NODE_STATUS_POLLING"
    NODE_STATUS_POLL_URL = "NODE_STATUS_POLL_URL"
    LIFECYCLE_EVENTS = "LIFECYCLE_EVENTS"
    HYPERVISOR_STATUS_POLLING = "HYPERVISOR_STATUS_POLLING"
    LB_STATUS_POLLING = "LB_STATUS_POLLING"


class Conditional(StrEnum):
    """Rule for several modes that vote: which failures make a node unhealthy."""

    ALL_FAILED = "ALL_FAILED"
    ANY_FAILED = "ANY_FAILED"


class RecoveryMode(StrEnum):
    """`OBSERVE` decides and records but does nothing."""

    RECOVER = "recover"
    OBSERVE = "observe"


class WhenExceeded(StrEnum):
    """Action of the storm limit: hold every node, or heal one at a time."""

    HOLD = "hold"
    SLOW = "slow"


class RungKind(StrEnum):
    """Built into the profile, or handed to a workflow driver."""

    BUILTIN = "BUILTIN"
    MISTRAL_WORKFLOW = "MISTRAL_WORKFLOW"
    COMMAND = "COMMAND"
    HTTP = "HTTP"


class FencingKind(StrEnum):
    """Target of a fence: the node itself, or the host under it."""

    COMPUTE = "COMPUTE"
    HOST = "HOST"


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlOptions:
    """Options of NODE_STATUS_POLL_URL (seed 1, "Polling Node URL"; contracts/health-policy#schema)."""

    poll_url: str
    """May hold {nodename} {node_id} {physical_id} {node_ip} {port} {cluster_name}."""
    ssl_verify: bool = True
    conn_error_as_unhealthy: bool = True
    healthy_response: str = ""
    """Linear-time regular expression searched in the body; empty: 2xx and health+json decide."""
    retry_limit: int = 1
    """Attempts in total, the first included."""
    retry_interval_s: float = 3.0
    timeout_s: float = 1.0
    """Of one attempt. Senlin: max(0.1 × retry_interval, 1)."""
    keep_alive: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionMode:
    """A detection mode: one way of asking, at its place in the declared order."""

    key: ModeKey
    type: ModeType
    url: UrlOptions | None = None
    """Set for NODE_STATUS_POLL_URL only."""
    options: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    """Options of the other modes, already validated."""
    sweep_s: float | None = None
    """LIFECYCLE_EVENTS: every node is read anyway so often, because events are lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """Detection part of a health policy: how a failure is found."""

    interval_s: float
    node_update_timeout_s: float
    """Grace after a life-cycle change."""
    grace_ends_early: bool
    """1.3: grace ends after `rise` passes. Older documents: full grace."""
    conditional: Conditional
    rise: int
    """Consecutive passes of a mode before it counts as up again."""
    fall: int
    """Consecutive fails of a mode before it counts as down."""
    confirm_status: bool
    """≤ 1.2: a failed status reading is read once more at once, since `fall` is 1."""
    modes: tuple[DetectionMode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryAction:
    """An action of the ladder."""

    name: str
    """REBOOT, REBUILD, RECREATE, EVACUATE, another operation of the profile, or a workflow's name."""
    kind: RungKind = RungKind.BUILTIN
    params: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    timeout_s: float = 600.0
    """For the act and its verification together."""
    in_place: bool = False
    """Cannot create a second copy, hence needs no fence. A workflow is not, unless it says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """A number of nodes, absolute or as a share of the desired capacity; exactly one is set."""

    count: int | None = None
    percent: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one cluster (design/failure#guards)."""

    max_unhealthy: Threshold
    when_exceeded: WhenExceeded
    max_in_flight: int
    domain: str | None
    """Name of the node attribute that groups nodes into failure domains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Retry part of a health policy: how often a node is recovered before a person is needed."""

    attempts: int
    backoff_s: float
    max_backoff_s: float
    stable_after_s: float
    """A node that stays healthy this long has its attempts forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Evidence part of a health policy: what is captured before a node is touched."""

    console_log: bool
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Whether REBUILD and RECREATE boot from a snapshot taken first."""

    take: bool
    restore: bool
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """Recovery part of a health policy: how a failure is healed."""

    mode: RecoveryMode
    actions: tuple[RecoveryAction, ...]
    """Never empty: RECREATE where the document names none."""
    fencing: tuple[FencingKind, ...]
    node_delete_timeout_s: float
    node_force_recreate: bool
    limits: Limits
    retry: Retry
    evidence: Evidence | None = None
    snapshot: Snapshot | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthPolicy:
    """One parsed `senlin.policy.health` document."""

    version: str
    detection: Detection
    recovery: Recovery
    reference_targets: tuple[str, ...] = ()
    """URLs or host:port that answer when our own network works ("is it me?", design/failure#guards)."""
