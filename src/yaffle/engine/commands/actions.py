"""Actions: taken back by whoever asked for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle.engine.jobs.run import cancel
from yaffle.store import catalog

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.engine.commands.desk import Desk
    from yaffle.model.rights import Who


class Actions:
    """Cancels actions."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def action_cancel(self, who: Who, ident: str, *, force: bool = False) -> None:
        """Cancel an action and its parts; `force` gives their locks back at once."""

        def work(conn: Connection) -> None:
            row = catalog.find_action(conn, ident, who.scope)
            cancel(self._desk.kit, conn, row, force=force, by=who.user)

        await self._desk.kit.store.write(work)
        self._desk.changed()
