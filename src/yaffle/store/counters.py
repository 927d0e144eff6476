"""Numbers that only ever grow, whoever asks and however often we restart.

The *turn* is the first thing that every write transaction of every process changes. Its row's lock
lets one writer run at a time on any database, as BEGIN IMMEDIATE does on SQLite, so that units of
work may read and then write without a thought for others; and a turn that is lower than one already
seen means a database that lost its last commits (asynchronous fail-over, an old backup).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlalchemy import bindparam, insert, select, update

from yaffle.model.ids import Epoch
from yaffle.store.tables import counters

if TYPE_CHECKING:
    from sqlalchemy import Connection

NEXT_EPOCH: Final = "next_epoch"
TURN: Final = "turn"
OLDEST_PROGRAM: Final = "oldest_program"
"""The lowest schema that a program must know to work on this database."""

_GROW: Final = (
    update(counters)
    .where(counters.c.name == bindparam("which"))
    .values(value=counters.c.value + bindparam("by"))
)
_GROW_AND_TELL: Final = _GROW.returning(counters.c.value)
_VALUE: Final = select(counters.c.value).where(counters.c.name == bindparam("which"))


def take_turn(conn: Connection) -> int:
    """Wait until no other writer is at work, and return the number of this turn."""
    return _grow(conn, TURN, 1)


def turn(conn: Connection) -> int:
    """Return the number of the last turn; it moves with every commit of anybody."""
    return _value(conn, TURN)


def oldest_program(conn: Connection) -> int:
    """Return the lowest schema that a program must know to work here; 0 when nobody has said."""
    return _value(conn, OLDEST_PROGRAM)


def raise_to(conn: Connection, name: str, value: int) -> None:
    """Make a counter at least `value`."""
    found = _value(conn, name)
    if found < value:
        _grow(conn, name, value - found)


def _grow(conn: Connection, name: str, by: int) -> int:
    asked = {"which": name, "by": by}
    if conn.dialect.update_returning:
        grown = conn.execute(_GROW_AND_TELL, asked).scalar_one_or_none()
    else:
        changed = conn.execute(_GROW, asked).rowcount
        grown = _value(conn, name) if changed else None
    if grown is None:
        conn.execute(insert(counters).values(name=name, value=by))
        return by
    return int(grown)


def _value(conn: Connection, name: str) -> int:
    return conn.execute(_VALUE, {"which": name}).scalar_one_or_none() or 0


def next_epoch(conn: Connection, by: int = 1) -> Epoch:
    """Return an epoch that nobody has held before; the first is 1."""
    return Epoch(_grow(conn, NEXT_EPOCH, by))


def highest_epoch(conn: Connection) -> Epoch:
    """Return the newest epoch given out; 0 before the first."""
    return Epoch(_value(conn, NEXT_EPOCH))
