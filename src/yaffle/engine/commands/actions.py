"""Commands on actions: cancel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle.engine.cluster_actions.transitions import cancel
from yaffle.store import catalog

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.engine.commands.context import CommandContext
    from yaffle.model.authz import Principal


class Actions:
    """Cancels actions."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    async def action_cancel(self, who: Principal, ident: str, *, force: bool = False) -> None:
        """Cancel an action and its parts; `force` gives their locks back at once."""

        def work(conn: Connection) -> None:
            row = catalog.find_action(conn, ident, who.scope)
            cancel(self._context.ctx, conn, row, force=force, by=who.user)

        await self._context.ctx.store.write(work)
        self._context.changed()
