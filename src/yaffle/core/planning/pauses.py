"""Pauses that cover a node now: maintenance of the node, its cluster or all, and the global stop."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from yaffle.model.incident import Pause, PauseKind, PauseScope

if TYPE_CHECKING:
    from collections.abc import Iterable

    from yaffle.model.ids import ClusterId, NodeId


def in_force(pause: Pause, now_us: int) -> bool:
    """Whether the pause has begun and has not expired."""
    return pause.starts_us <= now_us and (pause.expires_us is None or now_us < pause.expires_us)


def covers(pause: Pause, node_id: NodeId, cluster_id: ClusterId) -> bool:
    """Whether the pause's scope includes the node; a host's is turned into those of its nodes before."""
    match pause.scope:
        case PauseScope.ALL:
            return True
        case PauseScope.CLUSTER:
            return pause.target_id == cluster_id
        case PauseScope.NODE:
            return pause.target_id == node_id
        case PauseScope.HOST:
            return False
        case _:
            assert_never(pause.scope)


def is_of_host(pause: Pause, host: str) -> bool:
    """Whether a pause is a host's, by one of its names; two clouds' hosts of one name are both meant."""
    return pause.scope is PauseScope.HOST and host in pause.target_id.split()


def covering(
    pauses: Iterable[Pause], kind: PauseKind, node_id: NodeId, cluster_id: ClusterId, now_us: int
) -> tuple[Pause, ...]:
    """Return the pauses of `kind` that cover the node now, the one that lasts longest first."""
    found = (
        p
        for p in pauses
        if p.kind is kind and in_force(p, now_us) and covers(p, node_id, cluster_id)
    )
    endless = 2**63
    return tuple(
        sorted(found, key=lambda p: (-(endless if p.expires_us is None else p.expires_us), p.id))
    )
