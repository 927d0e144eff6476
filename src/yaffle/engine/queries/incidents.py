"""Reads an incident whole: every step with its time, the proofs, the evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yaffle.engine.queries import presentation
from yaffle.engine.queries.presentation import Shown
from yaffle.store import catalog, incidents, journal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from yaffle.engine.runtime.context import EngineContext
    from yaffle.model.authz import Principal
    from yaffle.store.rows import IncidentRow

STEPS_MAX: Final = 500
"""The newest steps of one incident that are shown: one that nobody closes is tried for years."""


class Incidents:
    """Reads incidents."""

    def __init__(self, ctx: EngineContext) -> None:
        self._store = ctx.store

    async def incidents(
        self, who: Principal, *, open_only: bool = False, node: str | None = None, limit: int = 100
    ) -> Sequence[Shown]:
        """Return incidents in short, the latest first; raise NotFound for an unknown node."""

        def work(conn: Connection) -> Sequence[Shown]:
            scope = who.scope
            node_id = None if node is None else catalog.find_node(conn, node, scope).id
            rows = incidents.listed(
                conn, open_only=open_only, node_id=node_id, limit=limit, project=scope
            )
            return [presentation.incident(row) for row in rows]

        return await self._store.read(work)

    async def incident(self, who: Principal, ident: str) -> Shown:
        """Return one incident in full; raise NotFound."""
        return await self._store.read(
            lambda conn: full(conn, incidents.get(conn, ident, who.scope))
        )


def full(conn: Connection, row: IncidentRow) -> Shown:
    """Return an incident with the steps of every attempt, the oldest first, its proofs and evidence."""
    steps = journal.of_incident(conn, row.id)[-STEPS_MAX:]
    return {
        **presentation.incident(row),
        "steps": [presentation.step(s, row) for s in steps],
        "proofs": [
            {
                "method": p["method"],
                "evidence": p["evidence"],
                "by": p["by"],
                "waived": p["waived"],
                **presentation.times(at=p["at_us"]),
            }
            for p in incidents.proofs_of(conn, row.id)
        ],
        "evidence": row.evidence,
    }
