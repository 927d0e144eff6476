"""Numbers that only ever grow, whoever asks and however often we restart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlalchemy import insert, select, update

from yaffle.model.ids import Epoch
from yaffle.store.tables import counters

if TYPE_CHECKING:
    from sqlalchemy import Connection

NEXT_EPOCH: Final = "next_epoch"


def next_epoch(conn: Connection) -> Epoch:
    """Return an epoch that nobody has held before; the first is 1."""
    # The update comes first: it takes the row's lock, so that two engines cannot read one value.
    grown = conn.execute(
        update(counters).where(counters.c.name == NEXT_EPOCH).values(value=counters.c.value + 1)
    )
    if grown.rowcount == 0:
        conn.execute(insert(counters).values(name=NEXT_EPOCH, value=1))
    return highest_epoch(conn)


def highest_epoch(conn: Connection) -> Epoch:
    """Return the newest epoch given out; 0 before the first.

    One that is lower than an epoch already seen means a database that lost the last commits.
    """
    value = conn.execute(
        select(counters.c.value).where(counters.c.name == NEXT_EPOCH)
    ).scalar_one_or_none()
    return Epoch(value or 0)
