"""Copies that go on being deleted after a recovery went past them (design/failure#recovery)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec
import structlog
from sqlalchemy import bindparam, insert, select, update

from yaffle.model.msgspec_init import prepared
from yaffle.model.operations import Target
from yaffle.store.tables import debris

if TYPE_CHECKING:
    from sqlalchemy import Connection, RowMapping

_TARGET: Final = prepared(Target)
WHATEVER: Final = "*"
"""In place of a copy's id: whatever bears the mark of a node that is gone (`late_resources`)."""

log = structlog.get_logger()


def lasting(target: Target) -> object:
    """Return a target as it is kept: without what was seen of it just now, which is no reason later."""
    return msgspec.to_builtins(replace(target, host_lost=False), enc_hook=dict)


def add(conn: Connection, ident: str, target: Target, now_us: int) -> None:
    """Remember a copy that somebody has to go on deleting; once, however often it is written.

    A copy without a name is not remembered: "whatever there is" will be the new copy by then.
    """
    if not target.physical_id:
        return
    if conn.execute(select(debris.c.id).where(debris.c.id == ident)).one_or_none() is not None:
        return
    conn.execute(
        insert(debris).values(
            id=ident,
            node_id=target.node_id,
            physical_id=target.physical_id,
            profile_type=target.profile_type,
            target=lasting(target),
            created_us=now_us,
            next_us=now_us,
            attempts=0,
            last_error="",
        )
    )


_DUE: Final = (
    select(debris)
    .where(
        debris.c.done_us.is_(None),
        debris.c.next_us <= bindparam("now"),
        debris.c.physical_id.not_in(("", WHATEVER)),
    )
    .order_by(debris.c.next_us, debris.c.id)
)


def due(conn: Connection, now_us: int, limit: int) -> Sequence[tuple[RowMapping, Target]]:
    """Return what is to be tried again now, the longest waiting first.

    One that cannot be read is passed over: it must not keep the others from being seen to.
    """
    rows = conn.execute(_DUE, {"now": now_us}).mappings().all()
    found: list[tuple[RowMapping, Target]] = []
    for row in rows:
        if len(found) >= limit:
            break
        try:
            found.append((row, msgspec.convert(row["target"], _TARGET)))
        except msgspec.ValidationError:
            log.exception("remains cannot be read", debris=row["id"])
    return found


def settle(conn: Connection, node_id: str, physical_id: str, now_us: int) -> None:
    """A copy is proved gone after all: nobody has to go on deleting it."""
    conn.execute(
        update(debris)
        .where(
            debris.c.node_id == node_id,
            debris.c.physical_id == physical_id,
            debris.c.done_us.is_(None),
        )
        .values(done_us=now_us)
    )


def tried(
    conn: Connection,
    ident: str,
    *,
    done_us: int | None,
    next_us: int,
    error: str,
    failed: bool,
) -> None:
    """Record an attempt; `attempts` counts those that have come to an end."""
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
