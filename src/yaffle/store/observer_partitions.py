"""Observer partitions: who cannot see which nodes, and how long that bars from watching them.

It ends by itself, so that a mended engine is asked again; one that finds itself blind once more is
believed for twice as long, up to an hour, so that clusters are not passed back and forth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from sqlalchemy import bindparam, delete, insert, select, update

from yaffle.model.ids import ClusterId, EngineId
from yaffle.store import leases
from yaffle.store.tables import blindness, watches

if TYPE_CHECKING:
    from sqlalchemy import Connection

FIRST_US: Final = 120_000_000
LONGEST_US: Final = 3_600_000_000
FORGOTTEN_US: Final = 7_200_000_000
"""A blindness that ended so long ago makes the next one no longer."""
CHUNK: Final = 500
"""Clusters that one statement names; a driver takes 65,535 parameters at most."""


_IN_FORCE: Final = select(blindness.c.cluster_id, blindness.c.engine_id).where(
    blindness.c.until_us > bindparam("now")
)


def in_force(conn: Connection, now_us: int) -> Mapping[ClusterId, frozenset[EngineId]]:
    """Return, for each cluster that somebody cannot see, who that is."""
    found: dict[ClusterId, set[EngineId]] = {}
    for row in conn.execute(_IN_FORCE, {"now": now_us}):
        found.setdefault(ClusterId(row.cluster_id), set()).add(EngineId(row.engine_id))
    return {ident: frozenset(engines) for ident, engines in found.items()}


def covers(conn: Connection, me: EngineId, ident: ClusterId) -> bool:
    """Whether `me` is taken not to see this cluster's nodes: it says so, or says it of others.

    Nobody finds out that it cannot see what it does not watch.
    """
    query = select(blindness.c.cluster_id).where(
        blindness.c.engine_id == me, blindness.c.until_us > leases.now(conn)
    )
    unseen = set(conn.execute(query).scalars())
    if ident in unseen or not unseen:
        return bool(unseen)
    watched = select(watches.c.cluster_id).where(
        watches.c.cluster_id == ident, watches.c.owner == me
    )
    return conn.execute(watched).first() is None


def record(conn: Connection, me: EngineId, idents: Sequence[ClusterId]) -> None:
    """Say that `me` cannot see the nodes of these clusters; one that is in force stays as it is."""
    now_us = leases.now(conn)
    conn.execute(delete(blindness).where(blindness.c.until_us < now_us - FORGOTTEN_US))
    known = {
        row.cluster_id: (row.since_us, row.until_us)
        for first in range(0, len(idents), CHUNK)
        for row in conn.execute(
            select(blindness).where(
                blindness.c.engine_id == me,
                blindness.c.cluster_id.in_(idents[first : first + CHUNK]),
            )
        )
    }
    for ident in idents:
        since_us, until_us = known.get(ident, (None, 0))
        if until_us > now_us:
            continue
        if since_us is None:
            values = {"since_us": now_us, "until_us": now_us + FIRST_US}
            conn.execute(insert(blindness).values(cluster_id=ident, engine_id=me, **values))
            continue
        longer_us = min(2 * (until_us - since_us), LONGEST_US)
        conn.execute(
            update(blindness)
            .where(blindness.c.cluster_id == ident, blindness.c.engine_id == me)
            .values(since_us=now_us, until_us=now_us + longer_us)
        )
