"""One migrated database in memory per process: a world begins with a copy, and may be set back to one.

Opening and migrating costs more than a short story does, and SQLAlchemy compiles each statement once
per engine; so the engine is kept, and only what is in the database is exchanged.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sqlalchemy import event

from yaffle.store.database import Store, open_store
from yaffle.store.dialects import sqlite as kind
from yaffle.store.dialects.kind import WRITE
from yaffle.store.runner import InlineRunner
from yaffle.testing import VirtualClock

if TYPE_CHECKING:
    from sqlalchemy import Connection


MOVED = "old.owner is not new.owner or old.epoch is not new.epoch"
STEP = "new.action_id, new.seq, new.phase, new.epoch, new.stage, coalesce(new.result, '')"
CHANGES = (
    ("steps", "insert", "true", STEP),
    ("steps", "update", "true", STEP),
    (
        "actions",
        "update",
        f"{MOVED} or old.status is not new.status",
        "new.id, old.owner, old.epoch, old.status, old.lease_us, new.owner, new.status",
    ),
    (
        "watches",
        "update",
        MOVED,
        "new.cluster_id, old.owner, old.epoch, old.lease_us, new.owner",
    ),
    ("incidents", "update", "old.state is not new.state", "new.id, new.node_id, new.state"),
)
"""What is overheard: table, event, condition, values."""
TOUCHED = (
    ("actions", "insert", "true"),
    ("actions", "update", "old.status is not new.status"),
    ("decisions", "insert", "true"),
    ("incidents", "insert", "true"),
    ("incidents", "update", "true"),
)
"""Whose names are kept in `touched`: table, event, condition."""


class Base:
    """The database, and its clock: the one that leases go by."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self._store = open_store("sqlite://", clock=self.clock, runner="inline")
        with self._store.engine.connect() as conn:
            raw = conn.connection.driver_connection
        assert isinstance(raw, sqlite3.Connection)
        self.raw = raw
        event.remove(self._store.engine, "begin", kind._begin)
        event.listen(self._store.engine, "begin", self._begin)
        self.changes: list[tuple[Any, ...]] = []
        """Every change of some rows since the list was emptied: the table, then `CHANGES`' values."""
        self.touched: set[str] = set()
        """The tables with a change of `TOUCHED` since somebody took their names out."""
        self._overhear()
        self.empty = self.save()

    def begin_anew(self) -> None:
        """Be as empty as at first, at the beginning of time."""
        self.restore(self.empty)
        self.clock.stepped_s = self.clock.forward_s = 0.0
        self.changes.clear()
        self.touched.clear()

    def _overhear(self) -> None:
        """Note changes as the database makes them, in whatever way a program asks for them."""
        self.raw.create_function("noted", -1, lambda *change: self.changes.append(change))
        self.raw.create_function("touched", 1, self.touched.add)
        triggers = [(f"noted('{c[0]}', {c[3]})", *c[:3]) for c in CHANGES]
        triggers += [(f"touched('{c[0]}')", *c) for c in TOUCHED]
        for number, (call, table, change, when) in enumerate(triggers):
            self.raw.execute(
                f"create trigger overheard_{number} after {change} on {table} when {when}"
                f" begin select {call}; end"
            )
        self.raw.commit()

    def _begin(self, conn: Connection) -> None:
        """As the store's own, past SQLAlchemy: it is half of what most transactions cost here."""
        writes = conn.get_execution_options().get(WRITE)
        self.raw.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
        conn.info[kind.BEFORE] = None if writes else self.raw.total_changes

    def save(self) -> bytes:
        """Return all that is stored."""
        return self.raw.serialize()

    def restore(self, stored: bytes) -> None:
        """Let the database be what it was when `stored` was saved."""
        self.raw.deserialize(stored)

    def store(self) -> Store:
        """Return the store as one process opens it: what it knows of the database is its own."""
        engine = self._store.engine
        runner = InlineRunner(engine, where="in memory", guard=lambda: None)
        return Store(
            place=self._store.place, clock=self.clock, engine=engine, runner=runner, lock=None
        )

    def rows(self, query: str, *values: object) -> Sequence[Any]:
        """Read past SQLAlchemy, which costs thirty times as much and is not what is judged here."""
        cursor = self.raw.execute(query, values)
        names = [d[0] for d in cursor.description]
        return [Row(zip(names, row, strict=True)) for row in cursor.fetchall()]


class Row(dict[str, Any]):
    """A row whose columns are attributes."""

    __getattr__ = dict.__getitem__


@lru_cache(maxsize=1)
def base() -> Base:
    """Return this process's database."""
    return Base()
