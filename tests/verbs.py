"""The engine's commands as stories say them: in one breath, by whoever."""

from __future__ import annotations

from collections.abc import Mapping

from yaffle.core.scaling import node_names
from yaffle.engine.commands import Commands
from yaffle.engine.commands.context import asker
from yaffle.engine.detection.health_persistence import refresh_cluster
from yaffle.engine.runtime.context import EngineContext
from yaffle.model.ids import ActionId, ClusterId


class Verbs(Commands):
    """All commands, and short ways to say some of them."""

    def __init__(self, ctx: EngineContext) -> None:
        super().__init__(ctx)
        self._ctx = ctx

    async def create_cluster(
        self, name: str, profile: str, size: int, *, by: str, policy: str | None = None
    ) -> ClusterId:
        """Create a cluster of `size` nodes called NAME-1, NAME-2, …; return its id."""
        fmt = f"{name}-$1I"
        ident, _ = await self.cluster_create(
            asker(by),
            name=name,
            profile=profile,
            desired_capacity=size,
            config={} if node_names.fault(fmt) else {node_names.KEY: fmt},
            policy=policy,
        )
        return ident

    async def delete_cluster(self, cluster: str, *, by: str) -> None:
        """Delete a cluster with all its nodes, whatever is being done to it."""
        await self.cluster_delete(asker(by), cluster, force=True)

    async def refresh(self, cluster_id: ClusterId) -> None:
        """Evaluate a cluster's status again."""
        now_us = self._ctx.clock.now_us()
        await self._ctx.store.write(lambda conn: refresh_cluster(conn, cluster_id, now_us))

    async def attach(self, cluster: str, policy: str, *, by: str) -> None:
        """Attach a policy."""
        await self.cluster_act(asker(by), cluster, "policy_attach", {"policy_id": policy})

    async def detach(self, cluster: str, policy: str, *, by: str) -> None:
        """Detach a policy."""
        await self.cluster_act(asker(by), cluster, "policy_detach", {"policy_id": policy})

    async def delete_node(self, node: str, *, by: str) -> None:
        """Delete one node, whatever is being done to it; the cluster shrinks with it."""
        await self.node_delete(asker(by), node, force=True)

    async def mark(self, node: str, *, reason: str, by: str) -> None:
        """Mark a node unhealthy."""
        await self.node_mark(asker(by), node, reason=reason)

    async def unmark(self, node: str, *, reason: str, by: str) -> None:
        """Lift the mark of a node."""
        await self.node_unmark(asker(by), node, reason=reason)

    async def recover(
        self,
        node: str,
        *,
        by: str,
        operation: str | None = None,
        params: Mapping[str, object] | None = None,
        check: bool = False,
    ) -> ActionId:
        """Ask for a recovery, by one operation or by the policy's ladder."""
        said: dict[str, object] = {"check": check}
        if operation is not None:
            said |= {"operation": operation, "operation_params": dict(params or {})}
        return await self.node_recover(asker(by), node, said)
