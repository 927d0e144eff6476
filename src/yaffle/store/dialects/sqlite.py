"""SQLite: a file, one writer at a time by BEGIN IMMEDIATE, every commit on disk before it is said."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from sqlalchemy import create_engine, event
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import QueuePool, StaticPool

from yaffle.store.dialects.encoding import dump_json
from yaffle.store.dialects.kind import WRITE, Advice, Fault

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine
    from sqlalchemy.engine.interfaces import DBAPIConnection
    from sqlalchemy.pool import ConnectionPoolEntry

    from yaffle.ports.clock import Clock
    from yaffle.store.dialects.kind import Opening
    from yaffle.store.dialects.url import DatabaseUrl

_BROKEN: Final = {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}

_ADVICE: Final[dict[int, str]] = {
    sqlite3.SQLITE_BUSY: "another process holds its lock; see who with `fuser`, it is tried again",
    sqlite3.SQLITE_LOCKED: "another connection holds its lock; it is tried again",
    sqlite3.SQLITE_FULL: "the disk is full; free some space, or run `yaffle db prune`",
    sqlite3.SQLITE_IOERR: "reading or writing failed; look at the disk and the kernel's log",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; stop Yaffle and restore a backup",
    sqlite3.SQLITE_NOTADB: "the file is not a database; check database.url or restore a backup",
    sqlite3.SQLITE_READONLY: "it cannot be written; check the owner and rights of file and folder",
    sqlite3.SQLITE_PERM: "access was refused; check the owner and rights of file and folder",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check that its folder exists and is writable",
    sqlite3.SQLITE_PROTOCOL: "its lock is contended; it is tried again",
    sqlite3.SQLITE_NOMEM: "memory ran out",
    sqlite3.SQLITE_INTERRUPT: "the statement took too long and was stopped",
}
"""What to do, by primary result code. Codes that are not here are bugs of ours, not of the disk."""


STATEMENTS: Final = 512
"""How many statements a connection keeps prepared: an engine has some four hundred."""
BEFORE: Final = "yaffle_changes_before"
"""In a connection's `info`: the rows it had changed when its transaction began; None: it may write."""


class SQLite:
    """As `Kind`."""

    transactional_ddl = True
    nulls_are_largest = False

    def make_engine(self, opening: Opening) -> Engine:
        """As `Kind.make_engine`."""
        path = opening.place.path
        single = path is None or opening.connections == 1
        reader = _reader(path) if path is not None and opening.read_only else None
        engine = create_engine(
            reader or ("sqlite://" if path is None else f"sqlite:///{path}"),
            json_serializer=dump_json,
            connect_args={
                "check_same_thread": False,
                "timeout": opening.busy_timeout_s,
                "cached_statements": STATEMENTS,
            },
            **(
                {"poolclass": StaticPool}
                if single
                else {
                    "poolclass": QueuePool,
                    "pool_size": opening.connections,
                    "max_overflow": 0,
                }
            ),
        )

        def on_connect(raw: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
            assert isinstance(raw, sqlite3.Connection)  # noqa: S101 - narrows the type
            _prepare(raw, opening.clock, plain=path is None or opening.read_only)

        event.listen(engine, "connect", on_connect)
        event.listen(engine, "begin", _begin)
        event.listen(engine, "before_execute", _refuse_statement)
        event.listen(engine, "commit", _refuse_commit)
        return engine

    def check(self, conn: Connection) -> None:
        """Every file will do."""

    def prepare_empty(self, conn: Connection) -> None:
        """There is nothing to set up."""

    def lock_schema(self, conn: Connection) -> None:
        """BEGIN IMMEDIATE has done it."""

    def in_transaction(self, conn: Connection) -> bool:
        """As `Kind.in_transaction`."""
        return bool(getattr(conn.connection.dbapi_connection, "in_transaction", False))

    def stop_when(self, conn: Connection, late: Callable[[], bool] | None) -> None:
        """As `Kind.stop_when`."""
        raw = conn.connection.dbapi_connection
        if set_handler := getattr(raw, "set_progress_handler", None):
            set_handler(late, 20_000)  # steps of SQLite's machine: some milliseconds

    def advice(self, origin: BaseException) -> Advice | None:
        """As `Kind.advice`. "no such table" is an OperationalError too, yet waiting won't mend it."""
        text = _ADVICE.get(_code(origin))
        if text is None:
            return None
        # A connection that is only meant to read says so of every write, and of nothing else.
        only_read = getattr(origin, "sqlite_errorcode", None) == sqlite3.SQLITE_READONLY
        return Advice(fault=Fault.READ_ONLY if only_read else Fault.AWAY, text=text)

    def may_reuse(self, origin: BaseException) -> bool:
        """As `Kind.may_reuse`."""
        return _code(origin) not in _BROKEN

    def damages(self, conn: Connection) -> tuple[str, ...]:
        """As `Kind.damages`."""
        rows = conn.exec_driver_sql("PRAGMA quick_check(20)").scalars()
        return tuple(str(row) for row in rows if row != "ok")

    def size_bytes(self, conn: Connection, place: DatabaseUrl) -> int:
        """Return the size of the file and its write-ahead log."""
        path = place.path
        if path is None:
            return 0
        files = (path, path.with_name(path.name + "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())


def copy_database(source: Path, target: Path) -> None:
    """Write a consistent copy of `source`, WAL included, to the new file `target`."""
    with (
        contextlib.closing(sqlite3.connect(source)) as old,
        contextlib.closing(sqlite3.connect(target)) as new,
    ):
        old.backup(new)


def _code(origin: BaseException) -> int:
    return getattr(origin, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF


def _reader(path: Path) -> str:
    """Return the URL by which a file is read and never written.

    One without a log beside it is in nobody's use: to be read it needs no log of ours, for which its
    folder might have no room.
    """
    used = path.with_name(path.name + "-wal").exists()
    return f"sqlite:///file:{quote(str(path))}?mode=ro{'' if used else '&immutable=1'}&uri=true"


def _prepare(raw: sqlite3.Connection, clock: Clock, *, plain: bool) -> None:
    """Set a connection up; `plain`: in memory or only read, so that nothing is written to a file."""
    # The driver's own idea of when to begin would hide BEGIN IMMEDIATE from us.
    raw.isolation_level = None
    raw.create_function("yaffle_now_us", 0, clock.now_us)
    raw.execute("PRAGMA foreign_keys = ON")
    # A savepoint keeps the pages it may have to put back: in memory, not in a temporary file, which
    # cost a job as much again as its statements.
    raw.execute("PRAGMA temp_store = MEMORY")
    # What is deleted is overwritten: a secret that was in a row must not stay in the file.
    raw.execute("PRAGMA secure_delete = ON")
    if not plain:
        raw.execute("PRAGMA journal_mode = WAL")
        # FULL: a commit that was acknowledged survives a power cut (NORMAL loses the last ones).
        raw.execute("PRAGMA synchronous = FULL")
        raw.execute("PRAGMA journal_size_limit = 67108864")


def _begin(conn: Connection) -> None:
    writes = bool(conn.get_execution_options().get(WRITE))
    # IMMEDIATE: a deferred transaction that turns into a writer fails with "locked" half-way.
    conn.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
    conn.info[BEFORE] = None if writes else _changes(conn)


def _refuse_statement(conn: Connection, statement: object, *_rest: object) -> None:
    """Refuse what would change rows, were it none, in a transaction that is to read.

    `PRAGMA query_only` would, but has SQLite forget every statement that the connection keeps
    prepared, each time it is set: two thirds of what statements cost.
    """
    if getattr(statement, "is_dml", False) and not conn.get_execution_options().get(WRITE):
        raise _refusal(str(statement))


def _refuse_commit(conn: Connection) -> None:
    """Fail the commit of a transaction that was to read and has written, in SQL of its own."""
    before = conn.info.pop(BEFORE, None)
    if before is not None and _changes(conn) != before:
        raise _refusal("COMMIT")


def _refusal(statement: str) -> OperationalError:
    """Return SQLite's own error for a write on a connection that may only read."""
    error = sqlite3.OperationalError("attempt to write a readonly database")
    error.sqlite_errorcode = sqlite3.SQLITE_READONLY
    return OperationalError(statement, None, error)


def _changes(conn: Connection) -> int:
    raw: Any = conn.connection.dbapi_connection
    return int(raw.total_changes)
