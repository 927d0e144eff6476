"""Ownership tags of a stack: whose copy it is, and which operation was begun on it last.

    cluster_id=…, cluster_node_id=…, cluster_node_index=…   as Senlin wrote them
    yaffle_operation=…                                      the id of the newest operation
    yaffle_operation_note=KIND AT BEFORE                    when it was begun (µs), and when something
                                                            had been begun on the stack before

Tags can be changed by an update only, and by one they are: the request that begins an update brings
its own mark along, so that whoever finds the mark knows that the update was begun. The name of a
stack is made of the node's id: Heat has no two stacks of a name in a project, so that a creation
which was sent twice makes one stack.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from yaffle.integrations.openstack.ownership_tags import (
    CLUSTER,
    INDEX,
    NODE,
    OPERATION,
    owner_marks,
)

if TYPE_CHECKING:
    from yaffle.drivers.profiles.heat_stack.api.documents import Stack
    from yaffle.model.ids import NodeId
    from yaffle.model.operations import Target

NOTE: Final = "yaffle_operation_note"
OURS: Final = frozenset({CLUSTER, NODE, INDEX, OPERATION, NOTE})
_NOTHING: Final = "-"
_WHEN: Final = re.compile(r"[0-9]{1,18}")
"""Anybody may write there: a number without an end is none, and no more is a ²."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The newest operation that was begun on a stack."""

    operation_id: str
    kind: str
    at_us: int
    before: str = ""
    """`Stack.updated` before it; empty where it had none."""

    def written(self) -> dict[str, str]:
        """Return the tags that say so, as names and texts."""
        note = (self.kind, str(self.at_us), self.before or _NOTHING)
        return {OPERATION: self.operation_id, NOTE: " ".join(note)}


def name_of(node_id: NodeId) -> str:
    """Return the name of a node's stack: the same whatever the node is called."""
    return f"yaffle-{node_id}"


def node_tag(node_id: NodeId) -> str:
    """Return the tag by which a node's stack is found."""
    return f"{NODE}={node_id}"


def words_in(stack: Stack) -> Mapping[str, str]:
    """Return the tags that are names and texts."""
    pairs = (tag.partition("=") for tag in stack.tags or ())
    return {name: value for name, is_pair, value in pairs if is_pair}


def mark_of(stack: Stack) -> Mark | None:
    """Return the mark; None where there is none, or where somebody has spoilt it."""
    words = words_in(stack)
    ident, note = words.get(OPERATION, ""), words.get(NOTE, "").split(" ")
    if not ident or len(note) != 3 or not _WHEN.fullmatch(note[1]):
        return None
    kind, at_us, before = note
    return Mark(
        operation_id=ident,
        kind=kind,
        at_us=int(at_us),
        before="" if before == _NOTHING else before,
    )


def tags_for(target: Target, mark: Mark | None, others: Sequence[str] = ()) -> str:
    """Return all the tags of a node's stack as Heat wants them; those of `others` are kept."""
    kept = [tag for tag in others if tag.partition("=")[0] not in OURS]
    words = {**owner_marks(target), **(mark.written() if mark else {})}
    return ",".join([*kept, *(f"{name}={value}" for name, value in words.items() if value)])


def stranger(stack: Stack, target: Target) -> str:
    """Say why a stack is not this node's; empty when it is, or when nobody claims it."""
    owner = words_in(stack).get(NODE, "")
    if owner in ("", str(target.node_id)):
        return ""
    return f"stack {stack.id} is the copy of node {owner}"
