"""Reads of failed hosts: the alerts that tell recovery controllers of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle.engine.queries.presentation import times
from yaffle.errors import NotFound
from yaffle.store import alerts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection

    from yaffle.engine.queries.presentation import Shown
    from yaffle.engine.runtime.context import EngineContext
    from yaffle.store.alerts import AlertRow


class Alerts:
    """The reads of alerts; a host belongs to no project, so only administrators come here."""

    def __init__(self, ctx: EngineContext) -> None:
        self._ctx = ctx

    async def alerts(
        self, *, state: str | None = None, host: str | None = None, limit: int = 100
    ) -> Sequence[Shown]:
        """Return alerts, all or those in `state` or of a host: those that wait first, then the newest."""
        name = None if host is None else self._ctx.hosts.hostname(host)
        return await self._shown(
            lambda conn: alerts.listed(conn, state=state, hostname=name, limit=limit)
        )

    async def alerts_of(self, failure_id: str) -> Sequence[Shown]:
        """Return the alerts of one failure."""
        return await self._shown(lambda conn: alerts.listed(conn, failure_id=failure_id))

    async def alert(self, seq: int) -> Shown:
        """Return one alert; raise NotFound."""
        for found in await self._shown(lambda conn: alerts.listed(conn, seq=seq)):
            return found
        raise NotFound(f"alert {seq}: there is none; see `yaffle alert list`")

    async def _shown(self, read: Callable[[Connection], Sequence[AlertRow]]) -> Sequence[Shown]:
        found = await self._ctx.store.read(read)
        return [_alert(row, self._ctx.hosts.responsible) for row in found]


def _alert(row: AlertRow, responsible: str) -> Shown:
    """Return an alert; `refused` is a waiting one that its endpoint would not take."""
    waits = row.state == alerts.AlertState.PENDING
    return {
        "seq": row.seq,
        "endpoint": row.endpoint,
        "responsible": row.endpoint == responsible,
        "host": row.hostname,
        "state": row.state,
        "refused": waits and row.refused_us is not None,
        "attempts": row.attempts,
        "last_answer": row.last_answer,
        "done_by": row.done_by,
        "done_why": row.done_why,
        "failure": {
            "id": row.failure_id,
            "on_shared_storage": row.on_shared_storage,
            "proof": row.proof,
            "source": row.source,
            "incident": row.incident_id,
            "cleared_by": row.cleared_by,
            **times(failed=row.failure_us, generated=row.generated_us, cleared=row.cleared_us),
        },
        **times(created=row.created_us, next=row.next_us if waits else None, done=row.done_us),
    }
