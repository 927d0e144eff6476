"""Status of a node by its stack and members: pure, tables for tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from yaffle.drivers.profiles.heat_stack.status.members import Member, State, named, of_state
from yaffle.drivers.profiles.heat_stack.status.ownership_tags import node_tag, stranger
from yaffle.drivers.profiles.heat_stack.status.status_mapping import DELETE_EVENT, Means, row_of
from yaffle.model.operations import Reading

if TYPE_CHECKING:
    from yaffle.drivers.profiles.heat_stack.api.documents import Stack
    from yaffle.model.operations import Target


def asks_members(stack: Stack) -> bool:
    """Whether its own status leaves open how it is."""
    return row_of(stack).means in (Means.MEMBERS, Means.AT_BEST_UNCLEAR)


def reading_of(stack: Stack, members: Sequence[Member], target: Target) -> Reading:
    """Return what a stack says of its node; `members` where `asks_members`."""
    row = row_of(stack)
    if why := stranger(stack, target):
        # Another node's copy says nothing of this one.
        return _reading(stack, None, why)
    sick, doubtful = of_state(members, State.FAILED), of_state(members, State.UNCLEAR)
    match row.means:
        case Means.GONE:
            return gone(target, f"stack {stack.id} is deleted", physical_id=stack.id)
        case Means.DOWN:
            return _reading(stack, False, row.why)
        case Means.UNCLEAR:
            return _reading(stack, None, row.why)
        case _ if sick:
            word = f"{stack.status} with failed members"
            kept = next((m.seen.kept for m in sick if m.seen is not None and m.seen.kept), "")
            return _reading(stack, False, f"failed: {named(sick)}", word=word, kept=kept)
        case _ if doubtful:
            return _reading(stack, None, f"not clear: {named(doubtful)}")
        case Means.AT_BEST_UNCLEAR:
            return _reading(stack, None, f"{row.why}, and no member is known to have failed")
        case Means.MEMBERS:
            return _reading(stack, True, f"{row.why}, and none of {len(members)} members failed")


def _reading(stack: Stack, up: bool | None, why: str, *, word: str = "", kept: str = "") -> Reading:
    return Reading(
        exists=True,
        up=up,
        backend_status=word or stack.status,
        detail=f"{why} ({stack.words})",
        physical_id=stack.id,
        kept=kept,
    )


def unclear(target: Target, why: str) -> Reading:
    """Return the reading of what could not be asked."""
    return Reading(
        exists=True,
        up=None,
        backend_status="unclear",
        detail=why,
        physical_id=target.physical_id,
        asked=False,
    )


def gone(target: Target, why: str, *, physical_id: str = "") -> Reading:
    """Return the reading of what Heat itself says is not there."""
    return Reading(
        exists=False,
        up=False,
        backend_status="gone",
        detail=why,
        physical_id=physical_id or target.physical_id,
        event=DELETE_EVENT,
    )


def newest_copy(target: Target, stacks: Iterable[Stack]) -> Stack | None:
    """Return the newest stack that bears the mark of a node; None where none does."""
    tag = node_tag(target.node_id)
    found = [stack for stack in stacks if tag in (stack.tags or ()) and not stack.gone]
    return max(found, key=lambda s: (s.created or "", s.id), default=None)
