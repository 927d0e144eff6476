"""Copies that go on being deleted after a recovery went past them (DESIGN §1.5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import insert, select, update

from yaffle.model.operations import Target
from yaffle.store.tables import debris

if TYPE_CHECKING:
    from sqlalchemy import Connection, RowMapping


def add(conn: Connection, ident: str, target: Target, now_us: int) -> None:
    """Remember a copy that somebody has to go on deleting; once, however often it is written."""
    if conn.execute(select(debris.c.id).where(debris.c.id == ident)).one_or_none() is not None:
        return
    conn.execute(
        insert(debris).values(
            id=ident,
            node_id=target.node_id,
            physical_id=target.physical_id,
            profile_type=target.profile_type,
            target=msgspec.to_builtins(target, enc_hook=dict),
            created_us=now_us,
            next_us=now_us,
            attempts=0,
            last_error="",
        )
    )


def due(conn: Connection, now_us: int, limit: int) -> Sequence[tuple[RowMapping, Target]]:
    """Return what is to be tried again now, the oldest first."""
    rows = (
        conn.execute(
            select(debris)
            .where(debris.c.done_us.is_(None), debris.c.next_us <= now_us)
            .order_by(debris.c.created_us)
            .limit(limit)
        )
        .mappings()
        .all()
    )
    return [(r, msgspec.convert(r["target"], Target)) for r in rows]


def tried(
    conn: Connection,
    ident: str,
    *,
    done_us: int | None,
    next_us: int,
    error: str,
    failed: bool,
) -> None:
    """Record a try; `attempts` counts those that have come to an end."""
    conn.execute(
        update(debris)
        .where(debris.c.id == ident)
        .values(
            done_us=done_us,
            next_us=next_us,
            attempts=debris.c.attempts + int(failed),
            last_error=error[:1000],
        )
    )
