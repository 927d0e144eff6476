"""Repository of engines, their epochs and leases.

The database's clock decides what has expired; a holder trusts only its own monotonic deadline,
taken before it asked (design/engines). Who takes which watch is in `store.watch_leases`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from sqlalchemy import BigInteger, bindparam, exists, insert, select, update

from yaffle import __version__
from yaffle.model.ids import ClusterId, EngineId, Epoch
from yaffle.store import commit_sequence, dialects
from yaffle.store.migrate import HEAD
from yaffle.store.tables import actions, duties, engines, watches

if TYPE_CHECKING:
    from sqlalchemy import Connection

FORGOTTEN_US: Final = 86_400_000_000
"""An engine that was not heard of for so long is taken for stopped."""

# Built once: to build one anew costs more than to carry it out.
_NOW: Final = select(dialects.now_us())
_HOLDS: Final = select(watches.c.cluster_id).where(
    watches.c.cluster_id == bindparam("cluster"),
    watches.c.owner == bindparam("me"),
    watches.c.epoch == bindparam("mine"),
    watches.c.lease_us > bindparam("now", type_=BigInteger),
)
_HELD: Final = select(watches.c.cluster_id).where(
    watches.c.owner == bindparam("me"),
    watches.c.epoch == bindparam("mine"),
    watches.c.lease_us > bindparam("now", type_=BigInteger),
)
_AHEAD: Final = (
    select(engines.c.id)
    .where(engines.c.stopped_us.is_(None), engines.c.seen_us > bindparam("now", type_=BigInteger))
    .limit(1)
)
_GOOD: Final = (
    (engines.c.id == bindparam("me"))
    & (engines.c.epoch == bindparam("mine"))
    & engines.c.stopped_us.is_(None)
    & (engines.c.seen_us > bindparam("since", type_=BigInteger))
)
"""When the lease of an engine is."""
_ALIVE: Final = select(exists().where(_GOOD))
_SEEN: Final = update(engines).where(_GOOD).values(seen_us=bindparam("now", type_=BigInteger))
_KEEP_ACTIONS: Final = (
    update(actions)
    .where(
        actions.c.owner == bindparam("me"),
        actions.c.epoch == bindparam("mine"),
        actions.c.status == "RUNNING",
    )
    .values(lease_us=bindparam("until", type_=BigInteger))
)
_KEEP_WATCHES: Final = (
    update(watches)
    .where(
        watches.c.owner == bindparam("me"),
        watches.c.epoch == bindparam("mine"),
        watches.c.cluster_id.not_in(bindparam("stuck", expanding=True)),
    )
    .values(lease_us=bindparam("until", type_=BigInteger))
)
_KEEP_DUTIES: Final = (
    update(duties)
    .where(duties.c.owner == bindparam("me"), duties.c.epoch == bindparam("mine"))
    .values(lease_us=bindparam("until", type_=BigInteger))
)


def now(conn: Connection) -> int:
    """Return the database's own time (µs UTC)."""
    return conn.execute(_NOW).scalar_one()


def holds_watch(conn: Connection, me: EngineId, epoch: Epoch, cluster_id: ClusterId) -> bool:
    """Whether `me` still watches the cluster under `epoch`, by the database's clock."""
    asked = {"cluster": cluster_id, "me": me, "mine": epoch, "now": now(conn)}
    return conn.execute(_HOLDS, asked).first() is not None


def held(conn: Connection, me: EngineId, epoch: Epoch) -> frozenset[ClusterId]:
    """Return the clusters that `me` watches under `epoch` now, by the database's clock."""
    rows = conn.execute(_HELD, {"me": me, "mine": epoch, "now": now(conn)})
    return frozenset(ClusterId(ident) for ident in rows.scalars())


def pull_in(conn: Connection, *, lease_s: float) -> bool:
    """Shorten what lies further ahead than a lease, after the database's clock went back.

    A fail-over to a server whose clock is behind by an hour would let a dead engine hold all it had
    for that hour more. Nobody wrote a time that had not come yet: an engine that was heard of in the
    future proves it. From now on a whole lease is left to everybody, which is never less than a
    holder believes to have; the living renew within it. Returns whether the clock went back.
    """
    now_us = now(conn)
    if conn.execute(_AHEAD, {"now": now_us}).first() is None:
        return False
    until_us = now_us + int(lease_s * 1_000_000)
    conn.execute(
        update(engines)
        .where(engines.c.stopped_us.is_(None), engines.c.seen_us > now_us)
        .values(seen_us=now_us)
    )
    for table in (watches, duties):
        conn.execute(
            update(table).where(table.c.lease_us > until_us).values({table.c.lease_us: until_us})
        )
    # What is ready may be put off for longer than a lease; `actions.claim` has a bound for that.
    conn.execute(
        update(actions)
        .where(actions.c.status == "RUNNING", actions.c.lease_us > until_us)
        .values(lease_us=until_us)
    )
    return True


def register(conn: Connection, me: EngineId, *, host: str, pid: int, alone: bool) -> Epoch:
    """Enter this engine under a new epoch.

    `alone`: the caller holds the database's file lock, hence every other engine is dead; saying so
    lets what they left behind be taken over at once.
    """
    epoch = commit_sequence.next_epoch(conn)
    now_us = now(conn)
    # Whoever was killed never said good-bye; after a day it is history, which is pruned.
    conn.execute(
        update(engines)
        .where(engines.c.stopped_us.is_(None), engines.c.seen_us < now_us - FORGOTTEN_US)
        .values(stopped_us=now_us)
    )
    if alone:
        conn.execute(
            update(engines).where(engines.c.stopped_us.is_(None)).values(stopped_us=now_us)
        )
    conn.execute(
        insert(engines).values(
            id=me,
            host=host,
            pid=pid,
            epoch=epoch,
            started_us=now_us,
            seen_us=now_us,
            schema=int(HEAD),
            version=__version__,
        )
    )
    return epoch


def alive(conn: Connection, me: EngineId, epoch: Epoch, *, lease_s: float) -> bool:
    """Whether the engine's lease is good, by the database's clock: a thawed one finds it is not."""
    since = now(conn) - int(lease_s * 1_000_000)
    return bool(conn.execute(_ALIVE, {"me": me, "mine": epoch, "since": since}).scalar_one())


def renew(
    conn: Connection,
    me: EngineId,
    epoch: Epoch,
    *,
    lease_s: float,
    stuck: Collection[ClusterId] = (),
) -> bool:
    """Extend the engine's lease and everything it owns; False when it has expired already.

    `stuck`: clusters whose watch stands still; their leases run out, so that others take them.
    """
    pull_in(conn, lease_s=lease_s)
    lease_us = int(lease_s * 1_000_000)
    now_us = now(conn)
    mine = {"me": me, "mine": epoch}
    seen = {**mine, "now": now_us, "since": now_us - lease_us}
    if conn.execute(_SEEN, seen).rowcount != 1:
        return False
    mine["until"] = now_us + lease_us
    conn.execute(_KEEP_ACTIONS, mine)
    conn.execute(_KEEP_WATCHES, {**mine, "stuck": tuple(stuck)})
    conn.execute(_KEEP_DUTIES, mine)
    return True


def stop(conn: Connection, me: EngineId) -> None:
    """Give everything back: a clean end lets others take over at once."""
    now_us = now(conn)
    conn.execute(update(engines).where(engines.c.id == me).values(stopped_us=now_us))
    conn.execute(
        update(watches).where(watches.c.owner == me).values(owner="", lease_us=0, claimed_us=now_us)
    )
    conn.execute(update(duties).where(duties.c.owner == me).values(owner="", lease_us=0))
    conn.execute(
        update(actions)
        .where(actions.c.owner == me, actions.c.status == "RUNNING")
        .values(lease_us=0)
    )
