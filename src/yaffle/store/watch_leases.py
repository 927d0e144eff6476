"""Watch leases: which engine watches which cluster; one or none.

A watch is free when nobody holds it, its lease has run out by the database's clock, or its holder
has stopped. To take one is a compare-and-set on (owner, epoch) of a row that is free in that very
statement; a holder that renewed meanwhile keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

from sqlalchemy import BigInteger, and_, bindparam, exists, func, insert, or_, select, update

from yaffle.errors import StaleEpoch
from yaffle.model.ids import ClusterId, EngineId, Epoch
from yaffle.store import leases, observer_partitions
from yaffle.store.tables import clusters, engines, nodes, watches

if TYPE_CHECKING:
    from sqlalchemy import BindParameter, ColumnElement, Connection

NOBODY: Final = EngineId("")
LATE_SHARE: Final = 0.5
"""An engine that was not heard of for this share of a lease has missed a renewal."""
CHUNK: Final = 500
"""Rows that one statement names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchLease:
    """One cluster and who watches it."""

    cluster_id: ClusterId
    owner: EngineId
    """Empty where nobody ever watched it, or its holder gave it up."""
    epoch: Epoch
    lease_us: int
    free: bool
    members: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Input of the watch assignment, read in one transaction."""

    now_us: int
    """By the database's clock."""
    live: frozenset[EngineId]
    late: frozenset[EngineId]
    """Those of the live that have missed a renewal: perhaps they are dead already."""
    holdings: Sequence[WatchLease]
    blind: Mapping[ClusterId, frozenset[EngineId]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchHolder:
    """The engine that watches a cluster now."""

    engine_id: EngineId
    host: str
    """Empty, and `pid` 0, of one whose row is gone."""
    pid: int
    since_us: int


def holder(conn: Connection, cluster_id: ClusterId) -> WatchHolder | None:
    """Return who holds a cluster's watch by the database's clock; None where nobody does."""
    found = conn.execute(
        select(watches.c.owner, watches.c.claimed_us, engines.c.host, engines.c.pid)
        .join_from(watches, engines, engines.c.id == watches.c.owner, isouter=True)
        .where(watches.c.cluster_id == cluster_id, watches.c.lease_us > leases.now(conn))
    ).one_or_none()
    if found is None:
        return None
    return WatchHolder(
        engine_id=found.owner,
        host=found.host or "",
        pid=found.pid or 0,
        since_us=found.claimed_us,
    )


def overview(conn: Connection, *, lease_s: float) -> Overview:
    """Return every cluster with its holder; members are counted only where there is a choice."""
    now_us = leases.now(conn)
    lease_us = int(lease_s * 1_000_000)
    running = {EngineId(row.id): int(row.seen_us) for row in conn.execute(_RUNNING)}
    live = frozenset(e for e, seen_us in running.items() if seen_us > now_us - lease_us)
    late_us = now_us - int(lease_us * LATE_SHARE)
    sizes = _sizes(conn) if len(live) > 1 else {}
    return Overview(
        now_us=now_us,
        live=live,
        late=frozenset(e for e in live if running[e] < late_us),
        holdings=tuple(
            WatchLease(
                cluster_id=ClusterId(row.id),
                owner=EngineId(row.owner or NOBODY),
                epoch=Epoch(row.epoch or 0),
                lease_us=row.lease_us or 0,
                free=row.owner not in running or row.lease_us < now_us,
                members=sizes.get(row.id, 0),
            )
            for row in conn.execute(_ALL)
        ),
        blind=observer_partitions.in_force(conn, now_us),
    )


# Built once: to build one anew costs more than to carry it out.
_RUNNING: Final = select(engines.c.id, engines.c.seen_us).where(engines.c.stopped_us.is_(None))
_ALL: Final = (
    select(clusters.c.id, watches.c.owner, watches.c.epoch, watches.c.lease_us)
    .join_from(clusters, watches, watches.c.cluster_id == clusters.c.id, isouter=True)
    .order_by(clusters.c.id)
)
_SIZES: Final = (
    select(nodes.c.cluster_id, func.count())
    .where(nodes.c.cluster_id.is_not(None))
    .group_by(nodes.c.cluster_id)
)


def _sizes(conn: Connection) -> Mapping[str, int]:
    return {row[0]: row[1] for row in conn.execute(_SIZES)}


def _is_free(now_us: int | BindParameter[int]) -> ColumnElement[bool]:
    holds = exists().where(engines.c.id == watches.c.owner, engines.c.stopped_us.is_(None))
    return or_(watches.c.lease_us < now_us, ~holds)


_NEW: Final = (
    select(clusters.c.id).where(clusters.c.id.not_in(select(watches.c.cluster_id))).limit(1)
)
_FREE: Final = (
    select(watches.c.cluster_id).where(_is_free(bindparam("now", type_=BigInteger))).limit(1)
)


def any_free(conn: Connection) -> bool:
    """Whether some cluster is watched by nobody: it is new, was given up, or its lease is over."""
    if conn.execute(_NEW).first() is not None:
        return True
    return conn.execute(_FREE, {"now": leases.now(conn)}).first() is not None


def take(
    conn: Connection,
    me: EngineId,
    epoch: Epoch,
    wanted: Sequence[WatchLease],
    *,
    lease_s: float,
) -> Sequence[ClusterId]:
    """Take what is still as it was seen, and free; return what is ours now.

    Raises StaleEpoch when our own lease is over: who was frozen takes nothing.
    """
    if not leases.alive(conn, me, epoch, lease_s=lease_s):
        raise StaleEpoch(f"the lease of epoch {epoch} expired")
    now_us = leases.now(conn)
    _add_rows(conn, [w.cluster_id for w in wanted], now_us)
    ours = {"owner": me, "epoch": epoch, "claimed_us": now_us}
    for (owner, old_epoch), group in groupby(sorted(wanted, key=_seen), key=_seen):
        for some in _chunks([w.cluster_id for w in group]):
            conn.execute(
                update(watches)
                .where(
                    watches.c.cluster_id.in_(some),
                    watches.c.owner == owner,
                    watches.c.epoch == old_epoch,
                    _is_free(now_us),
                )
                .values(lease_us=now_us + int(lease_s * 1_000_000), **ours)
            )
    return [
        ClusterId(ident)
        for some in _chunks([w.cluster_id for w in wanted])
        for ident in conn.execute(
            select(watches.c.cluster_id)
            .where(watches.c.cluster_id.in_(some), watches.c.owner == me, watches.c.epoch == epoch)
            .order_by(watches.c.cluster_id)
        ).scalars()
    ]


def _seen(holding: WatchLease) -> tuple[EngineId, Epoch]:
    return holding.owner, holding.epoch


def _add_rows(conn: Connection, idents: Sequence[ClusterId], now_us: int) -> None:
    """Make the rows of clusters that have none; one that was deleted meanwhile gets none."""
    for some in _chunks(idents):
        missing = select(clusters.c.id).where(
            and_(clusters.c.id.in_(some), clusters.c.id.not_in(select(watches.c.cluster_id)))
        )
        rows = [
            {"cluster_id": ident, "claimed_us": now_us} for ident in conn.execute(missing).scalars()
        ]
        if rows:
            conn.execute(insert(watches), rows)


def _chunks(idents: Sequence[ClusterId]) -> Iterator[Sequence[ClusterId]]:
    for first in range(0, len(idents), CHUNK):
        yield idents[first : first + CHUNK]


def give(conn: Connection, me: EngineId, epoch: Epoch, idents: Sequence[ClusterId]) -> None:
    """Give up watches that have stopped here: whoever should have them takes them at once."""
    now_us = leases.now(conn)
    for some in _chunks(idents):
        conn.execute(
            update(watches)
            .where(watches.c.cluster_id.in_(some), watches.c.owner == me, watches.c.epoch == epoch)
            .values(owner=NOBODY, lease_us=0, claimed_us=now_us)
        )
