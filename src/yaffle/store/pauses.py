"""Repository of maintenance, the global stop and released clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from sqlalchemy import BigInteger, bindparam, func, insert, or_, select, update

from yaffle.model.ids import ClusterId, PauseId
from yaffle.model.incident import Pause, PauseKind, PauseScope
from yaffle.store.tables import pauses, releases

if TYPE_CHECKING:
    from sqlalchemy import Connection, RowMapping

# Built once: it is asked before every step of every recovery.
_IN_FORCE: Final = (
    select(pauses)
    .where(
        pauses.c.lifted_us.is_(None),
        or_(
            pauses.c.expires_us.is_(None),
            pauses.c.expires_us > bindparam("now", type_=BigInteger),
        ),
    )
    .order_by(pauses.c.starts_us, pauses.c.id)
)


NOBODY: Final = "-"
"""Is the id of no node."""


def add(conn: Connection, pause: Pause) -> None:
    """Store a pause; that of a host so that an engine of the schema before can read it, as nobody's."""
    of_host = pause.scope is PauseScope.HOST
    conn.execute(
        insert(pauses).values(
            id=pause.id,
            kind=pause.kind.value,
            scope=(PauseScope.NODE if of_host else pause.scope).value,
            target_id=NOBODY if of_host else pause.target_id,
            host=pause.target_id if of_host else None,
            owner=pause.owner,
            reason=pause.reason,
            starts_us=pause.starts_us,
            expires_us=pause.expires_us,
        )
    )


def in_force(conn: Connection, now_us: int) -> Sequence[Pause]:
    """Return every pause that is neither lifted nor expired, future ones included."""
    return [pause_of(r) for r in conn.execute(_IN_FORCE, {"now": now_us}).mappings()]


def pause_of(row: RowMapping) -> Pause:
    """Return what a row says."""
    return Pause(
        id=PauseId(row["id"]),
        kind=PauseKind(row["kind"]),
        scope=PauseScope(row["scope"]) if row["host"] is None else PauseScope.HOST,
        target_id=row["target_id"] if row["host"] is None else row["host"],
        owner=row["owner"],
        reason=row["reason"],
        starts_us=row["starts_us"],
        expires_us=row["expires_us"],
    )


def lift(conn: Connection, pause_id: str, by: str, now_us: int) -> bool:
    """Lift a pause; False when there is none in force with that id."""
    changed = conn.execute(
        update(pauses)
        .where(pauses.c.id == pause_id, pauses.c.lifted_us.is_(None))
        .values(lifted_us=now_us, lifted_by=by)
    )
    return changed.rowcount == 1


def lift_kind(conn: Connection, kind: PauseKind, by: str, now_us: int) -> int:
    """Lift every pause of a kind; return how many there were."""
    return conn.execute(
        update(pauses)
        .where(
            pauses.c.kind == kind.value,
            pauses.c.lifted_us.is_(None),
            or_(pauses.c.expires_us.is_(None), pauses.c.expires_us > now_us),
        )
        .values(lifted_us=now_us, lifted_by=by)
    ).rowcount


def add_release(
    conn: Connection,
    *,
    ident: str,
    cluster_id: ClusterId,
    by: str,
    reason: str,
    now_us: int,
    expires_us: int,
) -> None:
    """Let a cluster heal in spite of its storm limit, for a while."""
    conn.execute(
        insert(releases).values(
            id=ident,
            cluster_id=cluster_id,
            by=by,
            reason=reason,
            created_us=now_us,
            expires_us=expires_us,
        )
    )


_RELEASED: Final = select(func.max(releases.c.expires_us)).where(
    releases.c.cluster_id == bindparam("cluster")
)


def released_until(conn: Connection, cluster_id: ClusterId) -> int | None:
    """Return until when the cluster's storm limit is released, past moments included."""
    return conn.execute(_RELEASED, {"cluster": cluster_id}).scalar()
