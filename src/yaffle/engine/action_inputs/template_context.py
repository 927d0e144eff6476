"""The variables of templates, and the ladder in the shape of an action's `data`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle.errors import InvalidSpec
from yaffle.model.policy import RungKind
from yaffle.policy.templates import fill

if TYPE_CHECKING:
    from yaffle.model.operations import Target
    from yaffle.model.policy import RecoveryAction


def names_of(target: Target, incident_id: str) -> dict[str, object]:
    """Return the values of everything but `operation.id`, which each step has anew."""
    return {
        "node.id": target.node_id,
        "node.name": target.name,
        "node.physical_id": target.physical_id,
        "node.index": target.index,
        "cluster.id": target.cluster_id or "",
        "cluster.name": target.cluster_name,
        "incident.id": incident_id,
        **{f"node.attributes.{k}": v for k, v in target.attributes.items()},
    }


def recover_action(
    actions: tuple[RecoveryAction, ...], names: dict[str, object]
) -> list[dict[str, object]]:
    """Return the ladder in the shape that seed 1 shows for `data.health.recover_action`."""
    return [_shown(action, names) for action in actions]


def _shown(action: RecoveryAction, names: dict[str, object]) -> dict[str, object]:
    shown: dict[str, object] = {"name": action.name}
    if action.kind is not RungKind.BUILTIN:
        shown["type"] = action.kind.value
    if action.params:
        shown["params"] = _filled(action, names)
    return shown


def _filled(action: RecoveryAction, names: dict[str, object]) -> object:
    params = dict(action.params)
    try:
        return fill(params, names)
    except InvalidSpec:
        return params  # something is known only when the step begins
