"""Coverage: how much of what should be watched is watched, by the database's clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import BigInteger, and_, bindparam, case, exists, func, select

from yaffle.store import leases
from yaffle.store.tables import clusters, engines, nodes, watches

if TYPE_CHECKING:
    from sqlalchemy import Connection

STEP_US: Final = 60_000_000
"""A clock that was set back by less is one that is being corrected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Clusters, and the nodes in them."""

    clusters: int
    clusters_watched: int
    nodes: int
    nodes_watched: int
    longest_s: float
    """For how long the one that has been without the longest has been; 0 while all are watched."""

    @property
    def ratio(self) -> float:
        """Share of the nodes that are watched; 1 where there are none and no cluster is without."""
        if self.clusters == self.clusters_watched:
            return 1.0
        return self.nodes_watched / self.nodes if self.nodes else 0.0


# Built once: to build it anew costs more than to carry it out.
_NOW: Final = bindparam("now", type_=BigInteger)
# Heard of in the future: the clock went back, and until it renews nothing says that it lives.
_RUNS: Final = exists().where(
    engines.c.id == watches.c.owner,
    engines.c.stopped_us.is_(None),
    engines.c.seen_us <= bindparam("latest", type_=BigInteger),
)
_HELD: Final = case((and_(watches.c.lease_us >= _NOW, _RUNS), 1), else_=0)
# A row that was given up, or never had a holder, says when that was.
_SINCE_US: Final = case(
    (watches.c.lease_us > 0, func.coalesce(watches.c.lease_us, 0)),
    else_=func.coalesce(watches.c.claimed_us, clusters.c.created_us),
)
_SIZES: Final = (
    select(nodes.c.cluster_id, func.count().label("members"))
    .where(nodes.c.cluster_id.is_not(None))
    .group_by(nodes.c.cluster_id)
    .subquery()
)
_MEMBERS: Final = func.coalesce(_SIZES.c.members, 0)
_COUNTED: Final = (
    select(
        func.count(),
        func.coalesce(func.sum(_HELD), 0),
        func.coalesce(func.sum(_MEMBERS), 0),
        func.coalesce(func.sum(_MEMBERS * _HELD), 0),
        func.min(case((_HELD == 0, _SINCE_US))),
    )
    .select_from(clusters)
    .join(watches, watches.c.cluster_id == clusters.c.id, isouter=True)
    .join(_SIZES, _SIZES.c.cluster_id == clusters.c.id, isouter=True)
)


def measure(conn: Connection) -> Coverage:
    """Count clusters and nodes under a good lease, and all there are."""
    now_us = leases.now(conn)
    row = conn.execute(_COUNTED, {"now": now_us, "latest": now_us + STEP_US}).one()
    longest_us = 0 if row[4] is None else max(0, now_us - row[4])
    return Coverage(
        clusters=row[0],
        clusters_watched=int(row[1]),
        nodes=int(row[2]),
        nodes_watched=int(row[3]),
        longest_s=longest_us / 1e6,
    )
