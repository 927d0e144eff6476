"""What a notification of another monitor leads to, and how far the nodes that it is about are.

A notification is somebody's word. It recovers nothing by itself: the nodes that it names are judged by
their own checks, and fenced before anything is started elsewhere. So it can be late, repeated or wrong
and does no harm; what is judged here is how that went.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from yaffle.model.health import Health
from yaffle.model.incident import IncidentState
from yaffle.model.instance_ha import (
    NORMAL,
    STARTED,
    STOPPED,
    MoveStatus,
    NotificationStatus,
    NotificationType,
)

WELL_US: Final = 300_000_000
"""So long after its host was said to have failed a node that seems well is checked: longer than Nova
takes to miss a host. As long after a check it is checked again."""
LONGEST_US: Final = 86_400_000_000
"""After so long whatever is not over has failed (Masakari's `notifications_expired_interval`)."""


class Begin(StrEnum):
    """What a notification leads to."""

    FOLLOW = "follow"
    """Its nodes are followed until they run elsewhere, or are well."""
    FINISH = "finish"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A notification, as far as it matters what it says."""

    type: NotificationType
    event: str
    host_status: str = ""
    enabled: bool = True
    """Whether its segment is in use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """A row of the table of what is told."""

    name: str
    holds: Callable[[Told], bool]
    begin: Begin
    why: str
    maintenance: bool = False
    """Whether its host is on maintenance from now on: what else is told of it is refused."""


def _is(kind: NotificationType, event: str) -> Callable[[Told], bool]:
    return lambda told: (told.type, told.event) == (kind, event)


HOST, VM, PROCESS = NotificationType.COMPUTE_HOST, NotificationType.VM, NotificationType.PROCESS

BEGINNINGS: Final = (
    Beginning(
        name="disabled",
        holds=lambda told: not told.enabled,
        begin=Begin.IGNORE,
        why="its segment is disabled",
    ),
    Beginning(
        name="unclear",
        holds=lambda told: told.type is HOST and told.host_status != NORMAL,
        begin=Begin.IGNORE,
        why="its sender does not say whether the host is off (host_status is not NORMAL)",
    ),
    Beginning(name="back", holds=_is(HOST, STARTED), begin=Begin.FINISH, why="the host is back"),
    Beginning(
        name="failed",
        holds=_is(HOST, STOPPED),
        begin=Begin.FOLLOW,
        why="the host failed",
        maintenance=True,
    ),
    Beginning(
        name="process-back", holds=_is(PROCESS, STARTED), begin=Begin.FINISH, why="it runs again"
    ),
    Beginning(
        name="process-failed",
        holds=_is(PROCESS, STOPPED),
        begin=Begin.FINISH,
        why="the host is on maintenance until somebody has seen to it; its nodes are judged by their"
        " own checks",
        maintenance=True,
    ),
    Beginning(
        name="instance",
        holds=lambda told: told.type is VM,
        begin=Begin.FOLLOW,
        why="the instance failed",
    ),
)
"""The first that holds; every notification that the API lets in has one."""


def beginning(told: Told) -> Beginning:
    """Return what a notification leads to."""
    return next(row for row in BEGINNINGS if row.holds(told))


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A node that a notification is about, as it is now."""

    exists: bool = True
    host: str = ""
    """On which host it is now."""
    health: Health = Health.UNKNOWN
    found_well: bool = False
    """Whether a check that was made for the notification has passed."""
    incident: IncidentState | None = None
    """Of its latest incident since it was told of."""
    why: str = ""
    """What is said of that incident."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """From where the node is to be gone, and since when."""

    host: str
    moves: bool
    """Whether it has to be elsewhere: not where the instance alone failed."""
    since_us: int
    now_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A row of the table of how far a node is."""

    name: str
    holds: Callable[[Member, Source], bool]
    status: MoveStatus
    says: Callable[[Member, Source], str]


_OPEN: Final = frozenset({IncidentState.OPEN, IncidentState.HELD, IncidentState.RECOVERING})


STEPS: Final = (
    Step(
        name="gone",
        holds=lambda member, _: not member.exists,
        status=MoveStatus.IGNORED,
        says=lambda *_: "the node was deleted",
    ),
    Step(
        name="late",
        holds=lambda _, source: source.now_us - source.since_us > LONGEST_US,
        status=MoveStatus.FAILED,
        says=lambda member, _: (
            f"a day is over, and it is not: {member.why or 'nobody knows how it is'}"
        ),
    ),
    Step(
        name="under-way",
        holds=lambda member, _: member.incident in _OPEN,
        status=MoveStatus.ONGOING,
        says=lambda member, _: member.why,
    ),
    Step(
        name="elsewhere",
        holds=lambda member, source: (
            source.moves
            and member.health is Health.HEALTHY
            and member.host not in {"", source.host}
        ),
        status=MoveStatus.SUCCEEDED,
        says=lambda member, _: f"it runs on {member.host}",
    ),
    Step(
        name="exhausted",
        holds=lambda member, _: member.incident is IncidentState.EXHAUSTED,
        status=MoveStatus.FAILED,
        says=lambda member, _: member.why,
    ),
    Step(
        name="recovered",
        holds=lambda member, _: (
            member.incident is IncidentState.RECOVERED and member.health is Health.HEALTHY
        ),
        status=MoveStatus.SUCCEEDED,
        says=lambda member, _: member.why,
    ),
    Step(
        name="well",
        holds=lambda member, _: member.found_well and member.health is Health.HEALTHY,
        status=MoveStatus.IGNORED,
        says=lambda *_: "nothing was done: it was checked, and has not failed",
    ),
    Step(
        name="waited-for",
        holds=lambda *_: True,
        status=MoveStatus.PENDING,
        says=lambda *_: "its own checks have not found it failed yet",
    ),
)
"""The first that holds."""
OVER: Final = frozenset({MoveStatus.IGNORED, MoveStatus.FAILED, MoveStatus.SUCCEEDED})


def judge(member: Member, source: Source) -> tuple[MoveStatus, str]:
    """Return how far a node is, and why that is said."""
    step = next(row for row in STEPS if row.holds(member, source))
    return step.status, step.says(member, source)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a notification ended."""

    status: NotificationStatus
    message: str
    false_alarm: bool = False
    """Whether nothing had failed: its host is not kept on maintenance for it."""


def ended(moves: Sequence[MoveStatus]) -> Ended | None:
    """Return how a notification ends that was about these nodes; None while one of them is not over."""
    if not moves:
        return Ended(status=NotificationStatus.FINISHED, message="no node of ours is concerned")
    if not OVER.issuperset(moves):
        return None
    counts: Mapping[MoveStatus, int] = {status: moves.count(status) for status in OVER}
    said = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()) if count)
    if counts[MoveStatus.FAILED]:
        return Ended(status=NotificationStatus.FAILED, message=f"of its nodes {said}")
    return Ended(
        status=NotificationStatus.FINISHED,
        message=f"of its nodes {said}",
        false_alarm=not counts[MoveStatus.SUCCEEDED],
    )
