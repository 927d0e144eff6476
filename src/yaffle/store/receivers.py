"""Receivers: rows whose id is a password, and the bucket that bounds how often each may be used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlalchemy import delete, insert, select, update

from yaffle.core.budgets import Bucket, BudgetLimit, refill
from yaffle.store import catalog
from yaffle.store.records import ReceiverRow, load
from yaffle.store.tables import budgets, receivers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

SCOPE: Final = "receiver"
"""Whose buckets they are in the table of budgets."""
SHOWN: Final = 8


def masked(ident: str) -> str:
    """Return the beginning of a receiver's id: enough to know it by, too little to use it."""
    return f"{ident[:SHOWN]}…"


def find(conn: Connection, ident: str, *, project: str | None) -> ReceiverRow:
    """Return the receiver of that id, name or id prefix; `project` None looks in all of them.

    Raises NotFound and MultipleChoices, in the words that clients know.
    """
    return catalog.find(conn, receivers, ReceiverRow, ident, "receiver", project)


def by_id(conn: Connection, ident: str) -> ReceiverRow | None:
    """Return the receiver of exactly that id: no prefix opens a webhook."""
    row = conn.execute(select(receivers).where(receivers.c.id == ident)).one_or_none()
    return None if row is None else load(ReceiverRow, row)


def add(conn: Connection, values: Mapping[str, object]) -> None:
    """Insert one receiver; buckets of receivers that went with their clusters go now."""
    known = select(receivers.c.id)
    conn.execute(delete(budgets).where(budgets.c.scope == SCOPE, budgets.c.key.not_in(known)))
    conn.execute(insert(receivers).values(**values))


def set_values(conn: Connection, ident: str, now_us: int, **values: object) -> None:
    """Change columns of a receiver."""
    conn.execute(
        update(receivers).where(receivers.c.id == ident).values(**values, updated_us=now_us)
    )


def remove(conn: Connection, ident: str) -> None:
    """Delete a receiver with its bucket."""
    conn.execute(delete(budgets).where(budgets.c.scope == SCOPE, budgets.c.key == ident))
    conn.execute(delete(receivers).where(receivers.c.id == ident))


def spend(conn: Connection, ident: str, limit: BudgetLimit, now_us: int) -> float | None:
    """Take one token from a receiver's bucket; return after how many seconds to ask again, or None.

    Nothing is written for a refusal: waiting fills the bucket all the same.
    """
    mine = (budgets.c.scope == SCOPE, budgets.c.key == ident)
    row = conn.execute(select(budgets.c.tokens, budgets.c.updated_us).where(*mine)).one_or_none()
    full = Bucket(tokens=float(limit.burst), updated_us=now_us)
    found = full if row is None else Bucket(tokens=row.tokens, updated_us=row.updated_us)
    bucket = refill(found, limit, now_us)
    if bucket.tokens < 1:
        return (1 - bucket.tokens) * 3600 / limit.per_hour
    values = {"tokens": bucket.tokens - 1, "updated_us": bucket.updated_us}
    if row is None:
        conn.execute(insert(budgets).values(scope=SCOPE, key=ident, **values))
    else:
        conn.execute(update(budgets).where(*mine).values(**values))
    return None
