"""Maps rows to the targets of drivers and to the values of the core."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from yaffle.core.health.verdict import NodeMemory, in_grace
from yaffle.core.planning.host_attribution import place_of
from yaffle.core.planning.retry import RetryState
from yaffle.model.health import Health, Mark
from yaffle.model.operations import Target

if TYPE_CHECKING:
    from yaffle.model.policy import Detection
    from yaffle.store.rows import NodeRow, ProfileRow


def target_of(node: NodeRow, profile: ProfileRow, cluster_name: str) -> Target:
    """Return the node as drivers see it."""
    return Target(
        node_id=node.id,
        name=node.name,
        physical_id=node.physical_id,
        cluster_id=node.cluster_id,
        cluster_name=cluster_name,
        index=node.index,
        profile_type=profile.type,
        spec=MappingProxyType(dict(profile.spec)),
        attributes=MappingProxyType(dict(node.attributes)),
        project=node.project,
    )


def host_of(node: NodeRow) -> str:
    """Return what the machine under a node is called; empty where the node names none."""
    return place_of(str(node.attributes.get("host") or ""), node.attributes)


def mark_of(node: NodeRow) -> Mark | None:
    """Return the user's mark on the node."""
    if node.mark_reason is None:
        return None
    return Mark(reason=node.mark_reason, by=node.mark_by, at_us=node.mark_us or 0)


def retry_of(node: NodeRow) -> RetryState:
    """Return what is stored of the node's past recoveries."""
    return RetryState(
        attempts=node.attempts, next_us=node.next_attempt_us, exhausted_us=node.exhausted_us
    )


def memory_of(node: NodeRow, detection: Detection, now_us: int) -> NodeMemory:
    """Return what a new watcher knows of a node: the stored belief, and no observation yet.

    Grace keeps its stored start: a takeover neither prolongs nor forgets it (design/failure#health).
    """
    memory = NodeMemory(
        node_id=node.id,
        health=Health(node.health),
        since_us=node.health_us or node.created_us,
        grace_us=node.grace_us,
        mark=mark_of(node),
    )
    if in_grace(memory, detection, now_us):
        return memory
    return NodeMemory(
        node_id=memory.node_id,
        health=memory.health,
        since_us=memory.since_us,
        grace_us=None,
        mark=memory.mark,
    )
