"""The table of actions on a node: its ladder, what its start says, and how others come past it."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from yaffle.core.health.node_lifecycle import NodeEvent
from yaffle.core.recovery.ladder import NodeActionKind
from yaffle.model.action import ActionKind

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAction:
    """One kind of action on a node."""

    ladder: NodeActionKind | None = None
    """The shape of its one rung; None: a recovery's is in its policy, and rows have none."""
    begins: NodeEvent | None = None
    """What its start is for the node's status; None: nothing."""
    progress: str = ""
    """The status reason while it is under way; `{operation}`: the operation's name."""
    may_break_off: bool = False
    """Cut off in the middle, it may have left anything."""
    rows_only: bool = False
    """It changes rows alone, in one transaction."""
    unimpeded: bool = False
    """It is queued while another one works on the node: it takes over, or waits its turn."""
    urgent: bool = False
    """It is claimed before the others."""
    looks: bool = False
    """It begins with a look at the node, so that a blind engine leaves it to others."""


NODE_ACTIONS: Final[Mapping[str, NodeAction]] = MappingProxyType(
    {
        ActionKind.NODE_CREATE: NodeAction(
            ladder=NodeActionKind.MAKE,
            begins=NodeEvent.CREATE_BEGUN,
            progress="Creation in progress",
            may_break_off=True,
        ),
        ActionKind.NODE_DELETE: NodeAction(
            ladder=NodeActionKind.REMOVE,
            begins=NodeEvent.DELETE_BEGUN,
            progress="Deletion in progress",
            may_break_off=True,
            unimpeded=True,
        ),
        ActionKind.NODE_UPDATE: NodeAction(
            ladder=NodeActionKind.REPLACE,
            begins=NodeEvent.UPDATE_BEGUN,
            progress="Update in progress",
            may_break_off=True,
        ),
        ActionKind.NODE_OPERATION: NodeAction(
            ladder=NodeActionKind.OPERATE,
            begins=NodeEvent.OPERATION_BEGUN,
            progress="Operation '{operation}' in progress",
            may_break_off=True,
            unimpeded=True,
        ),
        ActionKind.NODE_CHECK: NodeAction(ladder=NodeActionKind.CHECK, looks=True),
        ActionKind.NODE_RECOVER: NodeAction(
            begins=NodeEvent.RECOVERY_BEGUN,
            progress="Recovery in progress",
            urgent=True,
            looks=True,
        ),
        ActionKind.NODE_JOIN: NodeAction(rows_only=True, urgent=True),
        ActionKind.NODE_LEAVE: NodeAction(rows_only=True, urgent=True),
    }
)
_UNKNOWN: Final = NodeAction()


def of_name(action: str) -> NodeAction:
    """Return the row of an action's name; an empty one for a name that is not known here."""
    return NODE_ACTIONS.get(action, _UNKNOWN)
