"""Words in a path or body become ids here, and only of what the one who asks may see.

The verbs of before take anybody's id; whatever reaches them from outside has come through here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle.store import catalog, incidents

if TYPE_CHECKING:
    from yaffle.api.parts import Parts
    from yaffle.model.rights import Who


async def cluster(parts: Parts, who: Who, word: str) -> str:
    """Return the id of a cluster; raise NotFound, also for another project's."""
    return await parts.queries.read(lambda conn: catalog.find_cluster(conn, word, who.scope).id)


async def node(parts: Parts, who: Who, word: str) -> str:
    """Return the id of a node; raise NotFound, also for another project's."""
    return await parts.queries.read(lambda conn: catalog.find_node(conn, word, who.scope).id)


async def profile(parts: Parts, who: Who, word: str) -> str:
    """Return the id of a profile; raise NotFound, also for another project's."""
    return await parts.queries.read(lambda conn: catalog.find_profile(conn, word, who.scope).id)


async def policy(parts: Parts, who: Who, word: str) -> str:
    """Return the id of a policy; raise NotFound, also for another project's."""
    return await parts.queries.read(lambda conn: catalog.find_policy(conn, word, who.scope).id)


async def incident(parts: Parts, who: Who, word: str) -> str:
    """Return the id of an incident; raise NotFound, also for another project's."""
    return await parts.queries.read(lambda conn: incidents.get(conn, word, who.scope).id)
