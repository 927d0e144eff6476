"""Words in a path become ids here, and only of what the one who asks may see.

The verbs of nodes take anybody's id; whatever reaches them from outside has come through here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle.store import catalog

if TYPE_CHECKING:
    from yaffle.api.parts import Parts
    from yaffle.model.rights import Who


async def node(parts: Parts, who: Who, word: str) -> str:
    """Return the id of a node; raise NotFound, also for another project's."""
    return await parts.queries.read(lambda conn: catalog.find_node(conn, word, who.scope).id)
