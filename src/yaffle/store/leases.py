"""Engines, their epochs, and which engine watches which cluster.

The database's clock decides what has expired; a holder trusts only its own monotonic deadline,
taken before it asked (DESIGN §3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlalchemy import exists, insert, or_, select, update

from yaffle.model.ids import ClusterId, EngineId, Epoch
from yaffle.store import counters, dialects
from yaffle.store.tables import actions, clusters, engines, watches

if TYPE_CHECKING:
    from sqlalchemy import Connection


def now(conn: Connection) -> int:
    """Return the database's own time (µs UTC)."""
    return conn.execute(select(dialects.now_us())).scalar_one()


def holds_watch(conn: Connection, me: EngineId, epoch: Epoch, cluster_id: ClusterId) -> bool:
    """Whether `me` still watches the cluster under `epoch`, by the database's clock."""
    mine = exists().where(
        watches.c.cluster_id == cluster_id,
        watches.c.owner == me,
        watches.c.epoch == epoch,
        watches.c.lease_us > now(conn),
    )
    return bool(conn.execute(select(mine)).scalar_one())


def held(conn: Connection, me: EngineId, epoch: Epoch) -> frozenset[ClusterId]:
    """Return the clusters that `me` watches under `epoch` now, by the database's clock."""
    rows = conn.execute(
        select(watches.c.cluster_id).where(
            watches.c.owner == me, watches.c.epoch == epoch, watches.c.lease_us > now(conn)
        )
    )
    return frozenset(ClusterId(ident) for ident in rows.scalars())


def any_unwatched(conn: Connection) -> bool:
    """Whether there is a cluster that no engine has ever watched: a new one."""
    new = select(clusters.c.id).where(clusters.c.id.not_in(select(watches.c.cluster_id)))
    return conn.execute(new.limit(1)).first() is not None


def register(conn: Connection, me: EngineId, *, host: str, pid: int, alone: bool) -> Epoch:
    """Enter this engine under a new epoch.

    `alone`: the caller holds the database's file lock, hence every other engine is dead; saying so
    lets what they left behind be taken over at once.
    """
    epoch = counters.next_epoch(conn)
    now_us = now(conn)
    if alone:
        conn.execute(
            update(engines).where(engines.c.stopped_us.is_(None)).values(stopped_us=now_us)
        )
    conn.execute(
        insert(engines).values(
            id=me, host=host, pid=pid, epoch=epoch, started_us=now_us, seen_us=now_us
        )
    )
    return epoch


def renew(conn: Connection, me: EngineId, epoch: Epoch, *, lease_s: float) -> bool:
    """Extend the engine's lease and everything it owns; False when it has expired already."""
    lease_us = int(lease_s * 1_000_000)
    now_us = now(conn)
    alive = conn.execute(
        update(engines)
        .where(
            engines.c.id == me,
            engines.c.epoch == epoch,
            engines.c.stopped_us.is_(None),
            engines.c.seen_us > now_us - lease_us,
        )
        .values(seen_us=now_us)
    ).rowcount
    if alive != 1:
        return False
    until = now_us + lease_us
    conn.execute(
        update(actions)
        .where(actions.c.owner == me, actions.c.epoch == epoch, actions.c.status == "RUNNING")
        .values(lease_us=until)
    )
    conn.execute(
        update(watches)
        .where(watches.c.owner == me, watches.c.epoch == epoch)
        .values(lease_us=until)
    )
    return True


def stop(conn: Connection, me: EngineId) -> None:
    """Give everything back: a clean end lets others take over at once."""
    conn.execute(update(engines).where(engines.c.id == me).values(stopped_us=now(conn)))
    conn.execute(update(watches).where(watches.c.owner == me).values(lease_us=0))
    conn.execute(
        update(actions)
        .where(actions.c.owner == me, actions.c.status == "RUNNING")
        .values(lease_us=0)
    )


def claim_watches(
    conn: Connection, me: EngineId, epoch: Epoch, *, lease_s: float
) -> Sequence[ClusterId]:
    """Take every cluster that nobody watches; return all that are ours."""
    now_us = now(conn)
    until_us = now_us + int(lease_s * 1_000_000)
    missing = select(clusters.c.id).where(clusters.c.id.not_in(select(watches.c.cluster_id)))
    for ident in conn.execute(missing).scalars().all():
        conn.execute(insert(watches).values(cluster_id=ident, claimed_us=now_us))
    stopped = select(engines.c.id).where(engines.c.stopped_us.is_not(None))
    conn.execute(
        update(watches)
        .where(
            watches.c.owner != me,
            or_(watches.c.lease_us < now_us, watches.c.owner.in_(stopped)),
        )
        .values(owner=me, epoch=epoch, lease_us=until_us, claimed_us=now_us)
    )
    mine = select(watches.c.cluster_id).where(watches.c.owner == me, watches.c.epoch == epoch)
    return [ClusterId(c) for c in conn.execute(mine.order_by(watches.c.cluster_id)).scalars()]
