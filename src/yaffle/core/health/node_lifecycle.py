"""The transition table of a node's status: for each event, what the status becomes, and from which.

A node that is being deleted keeps its status whatever else ends meanwhile: whoever deletes it has the
word. An event that does not apply to the present status changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

from yaffle.model.health import Health, NodeStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

REASON_MAX: Final = 4000
_S: Final = NodeStatus


class NodeEvent(StrEnum):
    """Event in a node's life cycle."""

    CREATE_BEGUN = "create-begun"
    """Its resource is being made."""
    CREATED = "created"
    """Its resource is there."""
    CREATE_FAILED = "create-failed"
    """It failed, or was cancelled: the node is watched and healed like any other."""
    UPDATE_BEGUN = "update-begun"
    """It is being given another profile."""
    OPERATION_BEGUN = "operation-begun"
    """What a user asked for is being done to it."""
    CHANGED = "changed"
    """An update or an operation succeeded."""
    REMADE = "remade"
    """An update made its resource anew."""
    SPARED = "spared"
    """What was begun ended before it touched the resource."""
    BROKEN_OFF = "broken-off"
    """What was begun failed or was cut off, and may have left anything."""
    RECOVERY_BEGUN = "recovery-begun"
    """A recovery of it was admitted."""
    RECOVERED = "recovered"
    """A recovery ended and it is healthy, also where it was so before."""
    ATTEMPT_FAILED = "attempt-failed"
    """A recovery ended and did not help."""
    ABANDONED = "abandoned"
    """A recovery ended without having been an attempt."""
    NEEDS_HUMAN = "needs-human"
    """Its attempts are used up."""
    CHECK_PASSED = "check-passed"
    """A check that a user asked for found it well."""
    CHECK_FAILED = "check-failed"
    """Such a check found it not well."""
    CHECK_FOUND_NONE = "check-found-none"
    """Such a check found that its resource is not there."""
    FELL_ILL = "fell-ill"
    """The watch says that it is unhealthy."""
    LEFT_ALONE = "left-alone"
    """It does not run, because somebody wants it so."""
    BECAME_WELL = "became-well"
    """The watch says that it is well again, with no action on it."""
    DELETE_BEGUN = "delete-begun"
    """Its deletion was asked for, begins, or failed and is to be tried again."""
    DELETE_SPARED = "delete-spared"
    """Its deletion was cancelled before it touched the resource."""
    DELETE_BROKEN_OFF = "delete-broken-off"
    """Its deletion was cancelled or cut off after that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row of the table."""

    becomes: NodeStatus | None
    """None: what is known of its resource says it (`at_rest`)."""
    leaves: frozenset[NodeStatus]


ANY: Final = frozenset(NodeStatus)
KEPT: Final = ANY - {_S.DELETING}
"""Statuses of a node that is not being deleted."""
WATCHED: Final = frozenset({_S.ACTIVE, _S.WARNING, _S.ERROR, _S.RECOVERING})
"""A node in ERROR is still watched; one that is being made or deleted is not (design/state)."""
OUTLIVED: Final = WATCHED - {_S.ACTIVE}
"""Statuses that a node without an action sheds when it is well."""

TABLE: Final[Mapping[NodeEvent, Rule]] = {
    NodeEvent.CREATE_BEGUN: Rule(becomes=_S.CREATING, leaves=KEPT),
    NodeEvent.CREATED: Rule(becomes=_S.ACTIVE, leaves=KEPT),
    NodeEvent.CREATE_FAILED: Rule(becomes=_S.ERROR, leaves=KEPT),
    NodeEvent.UPDATE_BEGUN: Rule(becomes=_S.UPDATING, leaves=KEPT),
    NodeEvent.OPERATION_BEGUN: Rule(becomes=_S.OPERATING, leaves=KEPT),
    NodeEvent.CHANGED: Rule(becomes=None, leaves=KEPT),
    NodeEvent.REMADE: Rule(becomes=_S.ACTIVE, leaves=KEPT),
    NodeEvent.SPARED: Rule(becomes=None, leaves=KEPT),
    NodeEvent.BROKEN_OFF: Rule(becomes=_S.ERROR, leaves=KEPT),
    NodeEvent.RECOVERY_BEGUN: Rule(becomes=_S.RECOVERING, leaves=KEPT),
    NodeEvent.RECOVERED: Rule(becomes=_S.ACTIVE, leaves=KEPT),
    NodeEvent.ATTEMPT_FAILED: Rule(becomes=_S.ERROR, leaves=KEPT),
    NodeEvent.ABANDONED: Rule(becomes=_S.WARNING, leaves=KEPT),
    NodeEvent.NEEDS_HUMAN: Rule(becomes=_S.ERROR, leaves=KEPT),
    NodeEvent.CHECK_PASSED: Rule(becomes=_S.ACTIVE, leaves=KEPT),
    NodeEvent.CHECK_FAILED: Rule(becomes=_S.WARNING, leaves=KEPT),
    NodeEvent.CHECK_FOUND_NONE: Rule(becomes=_S.ERROR, leaves=KEPT),
    NodeEvent.FELL_ILL: Rule(becomes=_S.WARNING, leaves=KEPT),
    NodeEvent.LEFT_ALONE: Rule(becomes=_S.WARNING, leaves=WATCHED),
    NodeEvent.BECAME_WELL: Rule(becomes=_S.ACTIVE, leaves=OUTLIVED),
    NodeEvent.DELETE_BEGUN: Rule(becomes=_S.DELETING, leaves=ANY),
    NodeEvent.DELETE_SPARED: Rule(becomes=None, leaves=ANY),
    NodeEvent.DELETE_BROKEN_OFF: Rule(becomes=_S.ERROR, leaves=ANY),
}


class NodeFacts(Protocol):
    """The columns of a node's row that its status depends on."""

    @property
    def status(self) -> str:
        """The present status."""

    @property
    def physical_id(self) -> str:
        """The id of its resource; empty where it has none."""

    @property
    def health(self) -> str:
        """The verdict of the watch."""

    @property
    def mark_reason(self) -> str | None:
        """Why a person marked it unhealthy."""

    @property
    def left_as_it_is(self) -> str:
        """Why it does not run though nothing is wrong."""


def move(node: NodeFacts, event: NodeEvent, reason: str) -> dict[str, object]:
    """Return the columns of the row that an event changes; none where it does not apply."""
    rule = TABLE[event]
    # A word that a later release stored is none of ours, and must not keep a node in it for ever.
    strange = node.status not in ANY and rule.leaves >= KEPT
    if node.status not in rule.leaves and not strange:
        return {}
    status = rule.becomes or at_rest(node)
    return {"status": status.value, "status_reason": reason[:REASON_MAX]}


def remark(node: NodeFacts, reason: str) -> dict[str, object]:
    """Return the columns where only the reason changes; none for a node that is being deleted."""
    return {"status_reason": reason[:REASON_MAX]} if node.status != NodeStatus.DELETING else {}


def at_rest(node: NodeFacts) -> NodeStatus:
    """Return the status of a node that nothing is being done to."""
    if not node.physical_id:
        return NodeStatus.ERROR
    sick = node.health == Health.UNHEALTHY or node.mark_reason is not None or node.left_as_it_is
    return NodeStatus.WARNING if sick else NodeStatus.ACTIVE
