"""Rows as frozen values: what repositories return, and the only shape of a row above the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

from yaffle.model.health import Health
from yaffle.model.ids import (
    ActionId,
    ClusterId,
    EngineId,
    Epoch,
    IncidentId,
    NodeId,
    OperationId,
    PolicyId,
    ProfileId,
)

if TYPE_CHECKING:
    from dataclasses import Field

    from sqlalchemy import Row


class _Record(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Field[object]]]


R = TypeVar("R", bound=_Record)


def load(kind: type[R], row: Row[tuple[object, ...]]) -> R:
    """Return `row` as a value of `kind`, whose fields are named like the columns."""
    places = _places(kind, row._fields)
    return kind(**{name: row[place] for name, place in places})


@lru_cache(maxsize=256)
def _places(kind: type[_Record], columns: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    return tuple((field.name, columns.index(field.name)) for field in fields(kind))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRow:
    """A profile: how nodes of a cluster are built."""

    id: ProfileId
    name: str
    type: str
    spec: Mapping[str, object]
    given: Mapping[str, object] | None
    """The spec as the user wrote it; None where nobody kept it."""
    metadata: Mapping[str, object]
    project: str
    user: str
    domain: str
    created_us: int
    updated_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRow:
    """A stored policy document, normalised."""

    id: PolicyId
    name: str
    type: str
    spec: Mapping[str, object]
    given: Mapping[str, object] | None
    source: str
    warnings: list[str]
    project: str
    user: str
    domain: str
    created_us: int
    updated_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRow:
    """A cluster; `desired_capacity` is a stored fact (design/state)."""

    id: ClusterId
    name: str
    profile_id: ProfileId
    desired_capacity: int
    min_size: int
    max_size: int
    """-1: no limit but the installation's."""
    next_index: int
    status: str
    status_reason: str
    timeout_s: int
    metadata: Mapping[str, object]
    config: Mapping[str, object]
    data: Mapping[str, object]
    project: str
    user: str
    domain: str
    created_us: int
    made_us: int | None
    updated_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """A node with its three words of state, its mark and its retry budget."""

    id: NodeId
    name: str
    cluster_id: ClusterId | None
    index: int
    role: str
    profile_id: ProfileId
    physical_id: str
    status: str
    status_reason: str
    health: str
    health_reason: str
    gray: bool
    health_us: int | None
    backend_status: str
    attributes: Mapping[str, object]
    metadata: Mapping[str, object]
    data: Mapping[str, object]
    tainted: bool
    grace_us: int | None
    seen_us: int | None
    mark_reason: str | None
    mark_by: str
    mark_us: int | None
    attempts: int
    next_attempt_us: int | None
    exhausted_us: int | None
    healthy_us: int | None
    project: str
    user: str
    domain: str
    created_us: int
    made_us: int | None
    """When its creation was completed."""
    updated_us: int | None

    @property
    def left_as_it_is(self) -> str:
        """Why it does not run though nothing is wrong: somebody wants it so. Empty where it runs."""
        return "" if self.health == Health.UNHEALTHY else self.health_reason


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingRow:
    """A policy attached to a cluster."""

    id: str
    cluster_id: ClusterId
    policy_id: PolicyId
    policy_type: str
    enabled: bool
    priority: int
    data: Mapping[str, object]
    last_op_us: int | None
    created_us: int
    updated_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverRow:
    """Somebody outside who may start one action; the id of a webhook is its password."""

    id: str
    """What it is stored under: see `store.receivers`."""
    hidden: str | None = None
    name: str
    type: str
    cluster_id: str
    action: str
    actor: Mapping[str, object]
    params: Mapping[str, object]
    channel: Mapping[str, object]
    expires_us: int | None = None
    project: str
    user: str
    domain: str
    created_us: int
    updated_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRow:
    """One durable job with its lease."""

    id: ActionId
    name: str
    action: str
    target: str
    cluster_id: ClusterId | None
    node_id: NodeId | None
    incident_id: IncidentId | None
    parent_id: str
    """The action whose part this is; empty for none."""
    cause: str
    status: str
    status_reason: str
    inputs: Mapping[str, object]
    outputs: Mapping[str, object]
    data: Mapping[str, object]
    lock_key: str | None
    owner: EngineId
    epoch: Epoch
    lease_us: int
    wake_us: int | None
    """A waiting action goes on by then at the latest."""
    cancel_reason: str | None
    timeout_s: int
    start_us: int | None
    end_us: int | None
    created_us: int
    updated_us: int | None
    project: str
    user: str
    domain: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """One line of the journal: an intent, and what became of it."""

    action_id: ActionId
    seq: int
    rung: int
    stage: str
    operation: str
    operation_id: OperationId
    phase: str
    """`intent`, `submitted` or `ended`."""
    result: str | None
    detail: str
    data: Mapping[str, object]
    epoch: Epoch
    intent_us: int
    submitted_us: int | None
    ended_us: int | None
    deadline_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentRow:
    """The story of one failure: a node's, or that of a host (then `node_id` is empty)."""

    id: IncidentId
    node_id: NodeId
    node_name: str
    cluster_id: ClusterId
    cluster_name: str
    state: str
    cause: str
    hold_reason: str | None
    hold_numbers: Mapping[str, object] | None
    reason: str
    first_fail_us: int | None
    opened_us: int
    decided_us: int | None
    started_us: int | None
    recovered_us: int | None
    ended_us: int | None
    acknowledged_us: int | None
    acknowledged_by: str
    action_id: ActionId | None
    evidence: str
    parent_id: IncidentId | None
    """The incident of the host that the node failed with."""
    open_key: str | None
    project: str
