"""Policies as people read them; a health policy always comes with its arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select

from yaffle.engine.queries import presentation
from yaffle.engine.queries.presentation import Shown
from yaffle.errors import InvalidSpec
from yaffle.policy import UnknownPolicyType, parse_document
from yaffle.store import catalog
from yaffle.store.tables import bindings, clusters

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from yaffle.engine.runtime.context import EngineContext
    from yaffle.model.authz import Principal
    from yaffle.store.rows import PolicyRow


class Catalogue:
    """Reads what users have described."""

    def __init__(self, ctx: EngineContext) -> None:
        self._store = ctx.store

    async def policies(self, who: Principal) -> Sequence[Shown]:
        """Return every policy, the oldest first."""
        return await self._store.read(
            lambda conn: [_policy(conn, row) for row in catalog.all_policies(conn, who.scope)]
        )

    async def policy(self, who: Principal, ident: str) -> Shown:
        """Return one policy; raise NotFound or MultipleChoices."""
        return await self._store.read(
            lambda conn: _policy(conn, catalog.find_policy(conn, ident, who.scope))
        )


def _policy(conn: Connection, row: PolicyRow) -> Shown:
    names = conn.execute(
        select(clusters.c.name)
        .join(bindings, bindings.c.cluster_id == clusters.c.id)
        .where(bindings.c.policy_id == row.id, clusters.c.project == row.project)
        .order_by(clusters.c.name)
    ).scalars()
    return {**presentation.policy(row), "arithmetic": worst_case(row), "clusters": list(names)}


def worst_case(row: PolicyRow) -> Shown | None:
    """Return how long a failure may take; None for what heals nothing or cannot be read here."""
    try:
        found = parse_document(row.spec).arithmetic
    except (InvalidSpec, UnknownPolicyType):
        return None
    if found is None:
        return None
    return {**found.as_json(), "lines": list(found.lines())}
