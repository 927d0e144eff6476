"""The schema of an audit record: what a decision rested on, enough to replay it from the row alone.

The cluster is kept as counts (how many nodes of which kind), not as a list: a record of ten
thousand nodes is as long as one of three. Only what decides is kept, so that
whatever is changed in a record changes what it comes to; and no URL, parameter or pattern, which
may hold secrets. All times are µs, UTC, of the clock that decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from yaffle.core.health.verdict import Belief
from yaffle.core.planning.guards import NodeCounts, NodeGroup
from yaffle.core.planning.host_attribution import HostReport
from yaffle.model.health import Health, Outcome
from yaffle.model.ids import ModeKey
from yaffle.model.incident import PauseKind, PauseScope
from yaffle.model.msgspec_init import prepared
from yaffle.model.policy import Conditional, Limits, ModeType, RecoveryMode

VERSION: Final = 4
"""Of the record and of the rules that read it; a decision made by later rules is not judged.

2: hosts. 3: rungs that cannot help. A record of before tells of none, and comes to the same by all.
4: which nodes of a host answer for themselves (`ANSWERING`).
"""
ANSWERING: Final = 4
"""Of before, a decision about a node on a host was made by other rules, and so was a gray belief."""
RECORD: Final = "record"
"""Under this name the record lies among a decision's inputs."""
PAUSES_MAX: Final = 8
"""Pauses of one kind that are kept whole; of more only their number is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mode:
    """One detection mode that votes: `url` is time-out (s), attempts and pause between them (s)."""

    key: ModeKey
    type: ModeType
    url: tuple[float, int, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """The detection of the policy, as far as a verdict depends on it."""

    interval_s: float
    node_update_timeout_s: float
    grace_ends_early: bool
    conditional: Conditional
    modes: tuple[Mode, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tries:
    """Retry settings: how many attempts, the longest back-off, when past attempts are forgotten."""

    attempts: int
    max_backoff_s: float
    stable_after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Healing:
    """The recovery of the policy, as far as a decision depends on it."""

    mode: RecoveryMode
    actions: tuple[str, ...]
    """Their names; the rest of them travels with the action."""
    limits: Limits
    tries: Tries


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The last answer of a mode."""

    outcome: Outcome
    code: str
    detail: str
    at_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """One mode's counts."""

    mode: ModeKey
    belief: Belief
    fails: int
    fell: int
    """Failures in a row that it took to believe it down; 0 unless it is."""
    last: Answered | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Believed:
    """Belief about the node, and what it rested on."""

    health: Health
    settled: bool
    gray: bool
    grace_us: int | None
    unheard_us: int | None
    mark: str | None
    """The reason of a user's mark."""
    heard: tuple[Heard, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The node that was decided upon."""

    domain: str
    busy: str
    requested_by: str
    attempts: int
    next_us: int | None
    exhausted_us: int | None
    healthy_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """Count of nodes of one kind; `here`: in the failure domain of the node decided upon."""

    health: Health
    recovering: bool
    planned: bool
    here: bool
    nodes: int
    host: str = ""
    """The lost host that they failed with, where it counts as one failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """Counts of the nodes and reference targets that were asked, and that answered."""

    asked: int
    answered: int
    references_asked: int
    references_answered: int
    road: str = ""
    """The kind of detection that was counted alone, because the failure rests on it alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """A pause that covered the node."""

    id: str
    kind: PauseKind
    scope: PauseScope
    target_id: str
    owner: str
    reason: str
    starts_us: int
    expires_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """One shared budget before the recovery was debited."""

    scope: str
    key: str
    tokens: float
    updated_us: int
    in_flight: int
    max_in_flight: int
    burst: int
    per_hour: float


@prepared
@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Everything that one decision was made from."""

    v: Literal[1, 2, 3, 4]
    now_us: int
    policy_id: str
    policy_version: str
    judging: Judging
    healing: Healing
    believed: Believed
    subject: Subject
    desired_capacity: int
    nodes: tuple[Kind, ...]
    """The cluster as it stood: recoveries admitted earlier in the same pass are in it."""
    released_until_us: int | None
    sight: Sight
    lost: tuple[str, ...]
    pauses: tuple[Paused, ...]
    """In the order in which they count; PAUSES_MAX of each kind."""
    more_pauses: Mapping[PauseKind, int]
    purses: tuple[Budgets, ...]
    """Empty where the guards held already: then no budget was asked."""
    host: HostReport | None = None
    """The machine under the node."""
    hosts: int = 0
    """Machines under the cluster's nodes."""
    left_out: tuple[str, ...] = ()
    """Rungs that cannot help it, because its copy is gone for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """One row of the decisions, without what the story around it needs."""

    cluster_id: str
    node_id: str
    kind: str
    reason: str | None
    numbers: Mapping[str, object]
    inputs: Mapping[str, object]
    policy_id: str
    policy_version: str
    at_us: int
    until_us: int | None


class Unreadable(ValueError):
    """The values are no record; the message says where."""


def pack(record: Record) -> dict[str, object]:
    """Return the record as JSON-able values."""
    packed: dict[str, object] = msgspec.to_builtins(record)
    return packed


def unpack(values: object) -> Record:
    """Return the record that `pack` made; raise Unreadable where something is missing or strange."""
    try:
        return msgspec.convert(values, Record)
    except msgspec.ValidationError as error:
        raise Unreadable(str(error)) from error


def kinds(seen: NodeCounts, domain: str) -> tuple[Kind, ...]:
    """Return the counts with all domains but one's own run together, in a fixed order."""
    counts: dict[tuple[Health, bool, bool, bool, str], int] = {}
    for cell, count in seen.items():
        here = bool(domain) and cell.domain == domain
        key = (cell.health, cell.recovering, cell.planned, here, cell.host)
        counts[key] = counts.get(key, 0) + count
    return tuple(
        Kind(
            health=h,
            recovering=r,
            planned=p,
            here=here,
            nodes=counts[h, r, p, here, host],
            host=host,
        )
        for h, r, p, here, host in sorted(counts)
    )


def node_counts(found: tuple[Kind, ...], domain: str) -> NodeCounts:
    """Return the counts again, as far as it concerns a node of that domain."""
    return {
        NodeGroup(
            health=kind.health,
            recovering=kind.recovering,
            planned=kind.planned,
            domain=domain if kind.here else "",
            host=kind.host,
        ): kind.nodes
        for kind in found
    }
