"""The table of cluster actions: verb of the API, first transition, next ones, whether healing waits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from yaffle.engine.cluster_actions import (
    cluster_lifecycle,
    member_operations,
    membership,
    policy_binding,
    sizing,
)
from yaffle.model.action import ActionKind

if TYPE_CHECKING:
    from yaffle.engine.cluster_actions.cluster_action import ClusterAction, Transition
    from yaffle.store.rows import ActionRow


def never(job: ClusterAction) -> Transition:
    """Raise: an action without children ends in the transaction that asks for it."""
    raise AssertionError(f"{job.action.action} has nothing to go on with")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of cluster action."""

    verb: str
    """Key of `POST clusters/ID/actions`; empty where another route asks for it."""
    begin: Callable[[ClusterAction], Transition]
    resume: Callable[[ClusterAction], Transition] = never
    disturbs: bool = False
    """Whether healing waits while it is under way (contracts/health-policy#what-yaffle-settles)."""


KINDS: Final[Mapping[str, Kind]] = {
    ActionKind.CLUSTER_CREATE: Kind(
        verb="", begin=cluster_lifecycle.create, resume=cluster_lifecycle.created
    ),
    ActionKind.CLUSTER_UPDATE: Kind(
        verb="", begin=cluster_lifecycle.update, resume=cluster_lifecycle.updated, disturbs=True
    ),
    ActionKind.CLUSTER_DELETE: Kind(
        verb="", begin=cluster_lifecycle.delete, resume=cluster_lifecycle.deleted
    ),
    ActionKind.CLUSTER_OPERATION: Kind(
        verb="", begin=member_operations.operate, resume=member_operations.operated
    ),
    ActionKind.CLUSTER_ADD_NODES: Kind(
        verb="add_nodes", begin=membership.add, resume=membership.changed
    ),
    ActionKind.CLUSTER_DEL_NODES: Kind(
        verb="del_nodes", begin=membership.remove, resume=membership.removed, disturbs=True
    ),
    ActionKind.CLUSTER_REPLACE_NODES: Kind(
        verb="replace_nodes", begin=membership.replace, resume=membership.changed, disturbs=True
    ),
    ActionKind.CLUSTER_SCALE_OUT: Kind(
        verb="scale_out", begin=sizing.scale_out, resume=sizing.resized
    ),
    ActionKind.CLUSTER_SCALE_IN: Kind(
        verb="scale_in", begin=sizing.scale_in, resume=sizing.resized, disturbs=True
    ),
    ActionKind.CLUSTER_RESIZE: Kind(
        verb="resize", begin=sizing.resize, resume=sizing.resized, disturbs=True
    ),
    ActionKind.CLUSTER_CHECK: Kind(
        verb="check", begin=member_operations.check, resume=member_operations.checked
    ),
    ActionKind.CLUSTER_RECOVER: Kind(
        verb="recover",
        begin=member_operations.recover,
        resume=member_operations.recovered,
        disturbs=True,
    ),
    ActionKind.CLUSTER_ATTACH_POLICY: Kind(verb="policy_attach", begin=policy_binding.attach),
    ActionKind.CLUSTER_DETACH_POLICY: Kind(verb="policy_detach", begin=policy_binding.detach),
    ActionKind.CLUSTER_UPDATE_POLICY: Kind(verb="policy_update", begin=policy_binding.switch),
}

VERBS: Final[Mapping[str, str]] = {kind.verb: name for name, kind in KINDS.items() if kind.verb}
"""Action by the API's verb."""


def disturbs(action: ActionRow) -> bool:
    """Whether healing waits for this action; a resize only where it takes nodes away."""
    kind = KINDS.get(action.action)
    if kind is None or not kind.disturbs:
        return False
    return action.action != ActionKind.CLUSTER_RESIZE or "remove" in action.data
