"""Health and observations of a node."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yaffle.model.ids import ModeKey, NodeId


class Outcome(StrEnum):
    """Result of one check. `UNKNOWN` means "could not ask": never pass, never fail."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


class Health(StrEnum):
    """Health that we believe of a node (design/state)."""

    INITIALIZING = "initializing"
    HEALTHY = "healthy"
    SUSPECT = "suspect"
    UNHEALTHY = "unhealthy"
    UNKNOWN = "unknown"


class NodeStatus(StrEnum):
    """The engine's view of a node's life cycle (Senlin's enum)."""

    INIT = "INIT"
    ACTIVE = "ACTIVE"
    CREATING = "CREATING"
    UPDATING = "UPDATING"
    DELETING = "DELETING"
    RECOVERING = "RECOVERING"
    OPERATING = "OPERATING"
    WARNING = "WARNING"
    ERROR = "ERROR"


class ClusterStatus(StrEnum):
    """The engine's view of a cluster's life cycle (Senlin's enum)."""

    INIT = "INIT"
    ACTIVE = "ACTIVE"
    CREATING = "CREATING"
    UPDATING = "UPDATING"
    RESIZING = "RESIZING"
    DELETING = "DELETING"
    CHECKING = "CHECKING"
    RECOVERING = "RECOVERING"
    CRITICAL = "CRITICAL"
    ERROR = "ERROR"
    WARNING = "WARNING"
    OPERATING = "OPERATING"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """Mishap of a node by the backend's own word; a recovery tries the cheapest cure first.

    Seed 1, "Listening to Event Notifications": `event` is one of its words (PAUSE, POWER_OFF, …).
    """

    event: str
    state: str = ""
    """The backend's state of the node after it."""
    publisher: str = ""
    """Who told it: `nova-compute:node1`; empty where it was read, not heard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherCopy:
    """The backend holds another copy of a node than the one we know of: it came about late.

    Or the one we know of, and other facts are true of it: then `present` is `known`.
    """

    known: str
    """The copy that we asked for (`physical_id`); another one is there instead of it."""
    present: str
    """The one that bears the node's mark."""
    attributes: Mapping[str, object] | None = None
    """Where it is reached and on which machine it is; None: its backend keeps no such facts.

    Of the copy that we know of only those that were read: the others stay as they are.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One timestamped answer to one question about one node."""

    node_id: NodeId
    mode: ModeKey
    outcome: Outcome
    code: str
    """Row of `core.health.check_codes.OUTCOMES`, e.g. `L7-OK`."""
    detail: str
    """One line for a person, bounded and free of secrets."""
    at_us: int
    """When the answer, or its absence, became known (µs, UTC)."""
    took_us: int = 0
    answered: bool = False
    """Whether anything answered: a refused connection or "pid gone" does (design/failure#guards)."""
    backend_status: str = ""
    """The backend's own word, verbatim; empty where the mode has none."""
    authoritative: bool = False
    """Satisfies `fall` at once: asked because the backend itself reported the event."""
    hint: Hint | None = None
    """Set by detectors that hear or read what happened, not only that something did."""
    copy: OtherCopy | None = None
    """Set where the answer is about another copy than the one that was asked for, or says other
    facts of it than are stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A person or program says that a node is unhealthy; sticky until lifted (seed 5)."""

    reason: str
    by: str
    at_us: int
