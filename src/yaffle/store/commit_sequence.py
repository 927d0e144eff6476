"""Sequences that only grow, across processes and restarts.

The *turn* is the first thing that every write transaction of every process changes. Its row's lock
lets one writer run at a time on any database, as BEGIN IMMEDIATE does on SQLite, so that units of
work may read and then write without a thought for others. Each process also keeps the last turn that
it committed in a row of its own: a database that does not know it has lost commits (asynchronous
fail-over, an old backup), even if others have made as many turns since.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlalchemy import bindparam, insert, select, update

from yaffle.model.ids import Epoch
from yaffle.store.tables import counters

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection

NEXT_EPOCH: Final = "next_epoch"
TURN: Final = "turn"
OLDEST_PROGRAM: Final = "oldest_program"
"""The lowest schema that a program must know to work on this database."""

PLACE: Final = "turn:"
"""Begins the name of each process's own row: the last turn that it committed."""
FORGOTTEN: Final = 50_000_000
"""Turns without a word: months of a busy fleet."""

_MOVE: Final = (
    update(counters)
    .where(counters.c.name == bindparam("which"), counters.c.value >= bindparam("last"))
    .values(value=bindparam("now"))
)
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


def keep_place(conn: Connection, process: str, *, last: int, turn: int) -> int | None:
    """Write down that this process is committing `turn`; None if the database knows its `last` one.

    Otherwise return what it knows instead: commits of ours are gone, whoever has written since.
    """
    asked = {"which": PLACE + process, "last": last, "now": turn}
    if turn > last and conn.execute(_MOVE, asked).rowcount == 1:
        return None
    known = conn.execute(_VALUE, {"which": PLACE + process}).scalar_one_or_none()
    if known is None and (last == 0 or turn - last > FORGOTTEN):
        conn.execute(insert(counters).values(name=PLACE + process, value=turn))
        return None
    return min(known or 0, turn - 1)


def retake_place(conn: Connection, process: str, turn: int) -> None:
    """Write down where this process goes on after commits were lost."""
    if conn.execute(_MOVE, {"which": PLACE + process, "last": 0, "now": turn}).rowcount == 0:
        conn.execute(insert(counters).values(name=PLACE + process, value=turn))


def forgotten(conn: Connection) -> ColumnElement[bool]:
    """Return which rows are of processes that have ended, to go by how long they have said nothing."""
    old = counters.c.value < turn(conn) - 2 * FORGOTTEN
    return counters.c.name.startswith(PLACE) & old


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
