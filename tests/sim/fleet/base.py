"""One migrated database in memory per process: a world begins with a copy, and may be set back to one.

Opening and migrating costs more than a short world does, and SQLAlchemy compiles each statement once
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
        self.empty = self.save()

    def _begin(self, conn: Connection) -> None:
        """As the store's own, past SQLAlchemy: it is half of what most transactions cost here."""
        writes = conn.get_execution_options().get(WRITE)
        self.raw.execute(f"PRAGMA query_only = {'OFF' if writes else 'ON'}")
        self.raw.execute("BEGIN IMMEDIATE" if writes else "BEGIN")

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
