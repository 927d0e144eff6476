"""Attaches and detaches policies by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle.engine.cluster_actions.transitions import begin
from yaffle.engine.commands.context import CommandContext, asker
from yaffle.errors import BadRequest, Conflict, NotFound
from yaffle.model.action import ActionKind
from yaffle.store import actions, catalog

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

    from yaffle.model.authz import Principal


class Bindings:
    """Attaches, switches and detaches policies."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    async def attach(
        self, cluster: str, policy: str, *, by: str | Principal, enabled: bool = True
    ) -> None:
        """Bind a policy to a cluster; the health policy is a singleton, the same policy a no-op."""
        await self._do(cluster, policy, ActionKind.CLUSTER_ATTACH_POLICY, {"enabled": enabled}, by)

    async def set_policy_enabled(
        self, cluster: str, policy: str, *, enabled: bool, by: str | Principal
    ) -> None:
        """Switch a binding on or off."""
        await self._do(cluster, policy, ActionKind.CLUSTER_UPDATE_POLICY, {"enabled": enabled}, by)

    async def detach(self, cluster: str, policy: str, *, by: str | Principal) -> None:
        """Unbind a policy; recoveries that run go on with the policy they began with."""
        await self._do(cluster, policy, ActionKind.CLUSTER_DETACH_POLICY, {}, by)

    async def _do(
        self,
        cluster: str,
        policy: str,
        action: str,
        said: Mapping[str, object],
        by: str | Principal,
    ) -> None:
        who = asker(by)

        def work(conn: Connection) -> None:
            row = catalog.find_cluster(conn, cluster, who.scope)
            found = catalog.find_policy(conn, policy, who.scope)
            inputs = {"policy_id": found.id, **said}
            try:
                ident = begin(self._context.ctx, conn, who, row, action, inputs)
            except BadRequest as error:
                raise NotFound(str(error)) from None
            ended = actions.get(conn, ident)
            if ended is not None and ended.status == actions.FAILED:
                raise Conflict(ended.status_reason)

        await self._context.ctx.store.write(work)
        self._context.changed()
