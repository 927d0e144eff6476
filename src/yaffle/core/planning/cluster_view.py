"""The planner's input: one whole cluster at one moment, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from yaffle.model.health import Health

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yaffle.core.planning.budgets import Key
    from yaffle.core.planning.host_attribution import HostReport
    from yaffle.core.planning.observer_partition import Blindness
    from yaffle.core.planning.retry import RetryState
    from yaffle.model.ids import ClusterId, NodeId
    from yaffle.model.incident import Pause
    from yaffle.model.policy import Recovery


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """The planner's input for one node."""

    node_id: NodeId
    name: str
    health: Health
    settled: bool
    busy: str = ""
    """Name of the active action that holds the node's lock; empty when it is free."""
    recovering: bool = False
    """Whether that action is a recovery."""
    domain: str = ""
    retry: RetryState
    marked: bool = False
    host: HostReport | None = None
    """What is known of the machine under it, where it is unhealthy or doubted and names one."""
    blind: Blindness | None = None
    """Its failure rests on a road by which nobody answers us."""
    requested_by: str = ""
    """The person who asked for this node to be recovered; empty when nobody did."""
    problem: str = ""
    left_out: tuple[str, ...] = ()
    """Rungs that cannot help it, because its copy is gone for good."""
    outdated: bool = False
    """Its row is newer than what is believed of it: counted by the guards, not decided upon."""
    draws_on: tuple[Key, ...] = ()
    """The shared budgets that a recovery of it is debited to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """The planner's input for one cluster, with everything that may hold it."""

    cluster_id: ClusterId
    name: str
    desired_capacity: int
    nodes: tuple[NodeView, ...]
    recovery: Recovery
    pauses: tuple[Pause, ...] = ()
    """Every pause in force, of any scope."""
    released_until_us: int | None = None
    """An operator released the storm limit until then."""
    blind: Blindness | None = None
    """Nobody answers us by any road."""
    hosts: int = 0
    """Machines under its nodes, as far as nodes name them."""
    lost: tuple[str, ...] = ()
    """Dependencies without which we must not act: `prober`, `database`, `late loop`, `clock jump`."""
    labels: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
