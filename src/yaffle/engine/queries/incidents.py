"""The whole story of one failure: every step with its time, the proofs, the evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yaffle.engine.queries import shown
from yaffle.engine.queries.shown import Shown
from yaffle.store import catalog, incidents, journal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from yaffle.engine.kit import Kit
    from yaffle.model.rights import Who
    from yaffle.store.records import IncidentRow

STEPS_MAX: Final = 500
"""The newest steps of one incident that are shown: one that nobody closes is tried for years."""


class Incidents:
    """Reads incidents."""

    def __init__(self, kit: Kit) -> None:
        self._store = kit.store

    async def incidents(
        self, who: Who, *, open_only: bool = False, node: str | None = None, limit: int = 100
    ) -> Sequence[Shown]:
        """Return incidents in short, the latest first; raise NotFound for an unknown node."""

        def work(conn: Connection) -> Sequence[Shown]:
            scope = who.scope
            node_id = None if node is None else catalog.find_node(conn, node, scope).id
            rows = incidents.listed(
                conn, open_only=open_only, node_id=node_id, limit=limit, project=scope
            )
            return [shown.incident(row) for row in rows]

        return await self._store.read(work)

    async def incident(self, who: Who, ident: str) -> Shown:
        """Return one incident in full; raise NotFound."""
        return await self._store.read(
            lambda conn: full(conn, incidents.get(conn, ident, who.scope))
        )


def full(conn: Connection, row: IncidentRow) -> Shown:
    """Return an incident with the steps of every try, the oldest first, its proofs and evidence."""
    steps = journal.of_incident(conn, row.id)[-STEPS_MAX:]
    return {
        **shown.incident(row),
        "steps": [shown.step(s, row) for s in steps],
        "proofs": [
            {
                "method": p["method"],
                "evidence": p["evidence"],
                "by": p["by"],
                "waived": p["waived"],
                **shown.times(at=p["at_us"]),
            }
            for p in incidents.proofs_of(conn, row.id)
        ],
        "evidence": row.evidence,
    }
