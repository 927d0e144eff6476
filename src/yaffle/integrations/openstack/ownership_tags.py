"""Whose copy something in a cloud is: the names under which every driver writes it down, Senlin's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from yaffle.model.ids import OperationId
    from yaffle.model.operations import Target

CLUSTER: Final = "cluster_id"
NODE: Final = "cluster_node_id"
INDEX: Final = "cluster_node_index"
OPERATION: Final = "yaffle_operation"
"""The id of the newest operation that was begun on it."""
PURPOSE: Final = "yaffle_purpose"
"""What an image was taken for: nothing but what bears it is deleted unasked."""


def owner_marks(target: Target) -> dict[str, str]:
    """Return what makes a thing the copy of a node."""
    return {
        CLUSTER: target.cluster_id or "",
        NODE: target.node_id,
        INDEX: str(target.index),
    }


def trace_of(operation_id: OperationId) -> str | None:
    """Return the request id under which the cloud's logs name the operation; None if it is no UUID."""
    text = str(operation_id).lower()
    shape = [len(part) for part in text.split("-")]
    hexadecimal = all(c in "0123456789abcdef-" for c in text)
    return f"req-{text}" if shape == [8, 4, 4, 4, 12] and hexadecimal else None
