"""Reads the engines: who is alive, what each watches and cannot see, what nobody watches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from sqlalchemy import func, select

from yaffle.engine.queries import presentation
from yaffle.store import coverage, leases
from yaffle.store.tables import blindness, clusters, engines, nodes, watches

if TYPE_CHECKING:
    from sqlalchemy import Connection, RowMapping

    from yaffle.engine.queries.presentation import Shown
    from yaffle.engine.runtime.context import EngineContext

FORGOTTEN_US: Final = 86_400_000_000
"""An engine that was heard of last so long ago is history."""
LISTED_MAX: Final = 1000


class Fleet:
    """Questions about engines."""

    def __init__(self, ctx: EngineContext) -> None:
        self._ctx = ctx

    async def engines(self, *, stopped: bool = False) -> Shown:
        """Return the engines of the last day, the oldest first, and how much is watched by all.

        With `stopped` also those that ended; all by the database's clock.
        """
        return await self._ctx.store.read(lambda conn: self._engines(conn, stopped=stopped))

    def _engines(self, conn: Connection, *, stopped: bool) -> Shown:
        now_us = leases.now(conn)
        query = (
            select(engines)
            .where(engines.c.seen_us > now_us - FORGOTTEN_US)
            .order_by(engines.c.started_us, engines.c.id)
            .limit(LISTED_MAX)
        )
        if not stopped:
            query = query.where(engines.c.stopped_us.is_(None))
        held = _held(conn, now_us)
        blind = _blind(conn, now_us)
        lease_us = int(self._ctx.settings.lease * 1_000_000)
        found = coverage.measure(conn)
        return {
            "engines": [
                _engine(
                    row, now_us, lease_us, held.get(row["id"], (0, 0)), blind.get(row["id"], [])
                )
                for row in conn.execute(query).mappings()
            ],
            "coverage": {
                "ratio": round(found.ratio, 6),
                "clusters": found.clusters,
                "clusters_watched": found.clusters_watched,
                "nodes": found.nodes,
                "nodes_watched": found.nodes_watched,
                "longest_unwatched_s": round(found.longest_s, 3),
            },
        }


def _held(conn: Connection, now_us: int) -> Mapping[str, tuple[int, int]]:
    """Return how many clusters and nodes each engine holds under a good lease."""
    sizes = (
        select(nodes.c.cluster_id, func.count().label("members"))
        .where(nodes.c.cluster_id.is_not(None))
        .group_by(nodes.c.cluster_id)
        .subquery()
    )
    rows = conn.execute(
        select(watches.c.owner, func.count(), func.coalesce(func.sum(sizes.c.members), 0))
        .select_from(watches)
        .join(sizes, sizes.c.cluster_id == watches.c.cluster_id, isouter=True)
        .where(watches.c.lease_us >= now_us)
        .group_by(watches.c.owner)
    )
    return {row[0]: (row[1], int(row[2])) for row in rows}


def _blind(conn: Connection, now_us: int) -> Mapping[str, Sequence[Shown]]:
    """Return what each engine said it cannot see."""
    found: dict[str, list[Shown]] = {}
    for row in conn.execute(
        select(blindness, clusters.c.name)
        .join(clusters, clusters.c.id == blindness.c.cluster_id)
        .where(blindness.c.until_us > now_us)
        .order_by(clusters.c.name, clusters.c.id)
    ):
        found.setdefault(row.engine_id, []).append(
            {
                "cluster_id": row.cluster_id,
                "cluster": row.name,
                **presentation.times(since=row.since_us, until=row.until_us),
            }
        )
    return found


def _engine(
    row: RowMapping, now_us: int, lease_us: int, held: tuple[int, int], blind: Sequence[Shown]
) -> Shown:
    return {
        "id": row["id"],
        "host": row["host"],
        "pid": row["pid"],
        "epoch": row["epoch"],
        "version": row["version"],
        "schema": row["schema"],
        "state": _state(row, now_us, lease_us),
        "watches": held[0],
        "nodes": held[1],
        "blind_for": list(blind),
        **presentation.times(
            started=row["started_us"], seen=row["seen_us"], stopped=row["stopped_us"]
        ),
    }


def _state(row: RowMapping, now_us: int, lease_us: int) -> str:
    """Return `live`, `lost` where the lease ran out, or `stopped`."""
    if row["stopped_us"] is not None:
        return "stopped"
    return "live" if row["seen_us"] > now_us - lease_us else "lost"
