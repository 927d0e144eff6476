"""Every action of a cluster as one row: its verb in the API, how it begins, how it goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from yaffle.engine.jobs import attaching, lifecycle, membership, sizing, upkeep

if TYPE_CHECKING:
    from yaffle.engine.jobs.job import Job, Move
    from yaffle.store.records import ActionRow


def never(job: Job) -> Move:
    """Actions without parts are over in the transaction that asks for them."""
    raise AssertionError(f"{job.action.action} has nothing to go on with")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of cluster action."""

    verb: str
    """Key of `POST clusters/ID/actions`; empty where another route asks for it."""
    begin: Callable[[Job], Move]
    resume: Callable[[Job], Move] = never
    disturbs: bool = False
    """Whether healing waits while it is under way (contracts/health-policy.md §9)."""


KINDS: Final[Mapping[str, Kind]] = {
    "CLUSTER_CREATE": Kind(verb="", begin=lifecycle.create, resume=lifecycle.created),
    "CLUSTER_UPDATE": Kind(
        verb="", begin=lifecycle.update, resume=lifecycle.updated, disturbs=True
    ),
    "CLUSTER_DELETE": Kind(verb="", begin=lifecycle.delete, resume=lifecycle.deleted),
    "CLUSTER_OPERATION": Kind(verb="", begin=upkeep.operate, resume=upkeep.operated),
    "CLUSTER_ADD_NODES": Kind(verb="add_nodes", begin=membership.add, resume=membership.changed),
    "CLUSTER_DEL_NODES": Kind(
        verb="del_nodes", begin=membership.remove, resume=membership.removed, disturbs=True
    ),
    "CLUSTER_REPLACE_NODES": Kind(
        verb="replace_nodes", begin=membership.replace, resume=membership.changed, disturbs=True
    ),
    "CLUSTER_SCALE_OUT": Kind(verb="scale_out", begin=sizing.scale_out, resume=sizing.resized),
    "CLUSTER_SCALE_IN": Kind(
        verb="scale_in", begin=sizing.scale_in, resume=sizing.resized, disturbs=True
    ),
    "CLUSTER_RESIZE": Kind(
        verb="resize", begin=sizing.resize, resume=sizing.resized, disturbs=True
    ),
    "CLUSTER_CHECK": Kind(verb="check", begin=upkeep.check, resume=upkeep.checked),
    "CLUSTER_RECOVER": Kind(
        verb="recover", begin=upkeep.recover, resume=upkeep.recovered, disturbs=True
    ),
    "CLUSTER_ATTACH_POLICY": Kind(verb="policy_attach", begin=attaching.attach),
    "CLUSTER_DETACH_POLICY": Kind(verb="policy_detach", begin=attaching.detach),
    "CLUSTER_UPDATE_POLICY": Kind(verb="policy_update", begin=attaching.switch),
}

VERBS: Final[Mapping[str, str]] = {kind.verb: name for name, kind in KINDS.items() if kind.verb}
"""Action by the API's verb."""


def disturbs(action: ActionRow) -> bool:
    """Whether healing waits for this action; a resize only where it takes nodes away."""
    kind = KINDS.get(action.action)
    if kind is None or not kind.disturbs:
        return False
    return action.action != "CLUSTER_RESIZE" or "remove" in action.data
