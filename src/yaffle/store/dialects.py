"""The only file that knows which database it is: pragmas, BEGIN, clocks, error codes, backups.

Everything else in `store/` is SQLAlchemy Core that runs on SQLite, PostgreSQL and MariaDB alike.
Today only SQLite is opened; the clock below already compiles for the others.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import BigInteger, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.pool import QueuePool, StaticPool
from sqlalchemy.sql.functions import FunctionElement

from yaffle.errors import ConfigError, StoreUnavailable

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine
    from sqlalchemy.engine.interfaces import DBAPIConnection
    from sqlalchemy.pool import ConnectionPoolEntry
    from sqlalchemy.sql.compiler import SQLCompiler

    from yaffle.ports.clock import Clock

WRITE: Final = "yaffle_write"
"""Execution option of a connection that may write; without it the database refuses to."""

ERRORS: Final = (SQLAlchemyError, sqlite3.Error)
"""What the database layer raises; the driver's own arrive bare while a connection is being made."""


class now_us(FunctionElement[int]):  # noqa: N801 - reads as the SQL function it is
    """The database's own clock at this statement, µs UTC (DESIGN §3): leases know no other."""

    type = BigInteger()
    inherit_cache = True


@compiles(now_us, "sqlite")
def _now_sqlite(_element: now_us, _compiler: SQLCompiler, **_kw: object) -> str:
    return "yaffle_now_us()"


@compiles(now_us, "postgresql")
def _now_postgresql(_element: now_us, _compiler: SQLCompiler, **_kw: object) -> str:
    # clock_timestamp(), not now(): the latter stands still for the whole transaction.
    return "(extract(epoch from clock_timestamp()) * 1000000)::bigint"


@compiles(now_us, "mysql", "mariadb")
def _now_mysql(_element: now_us, _compiler: SQLCompiler, **_kw: object) -> str:
    # UNIX_TIMESTAMP() would read its argument in the session's time zone.
    return "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))"


def database_path(url: str) -> Path | None:
    """Return the file behind `url`, None for a database in memory; raise ConfigError otherwise."""
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise ConfigError(
            "database.url is not a database URL: write sqlite:///PATH, with three slashes before"
            " a relative path and four before an absolute one"
        ) from error
    if parsed.drivername not in {"sqlite", "sqlite+pysqlite"} or parsed.query:
        raise ConfigError(
            f"database.url = {parsed.render_as_string(hide_password=True)!r}: this version keeps"
            " its state in SQLite only; write sqlite:///PATH without options"
        )
    if parsed.database in {None, "", ":memory:"}:
        return None
    return Path(parsed.database or "").absolute()


def make_engine(
    path: Path | None, *, clock: Clock, connections: int, busy_timeout_s: float
) -> Engine:
    """Return an engine with at most `connections` open; with one, that one is kept and shared."""
    single = path is None or connections == 1
    engine = create_engine(
        "sqlite://" if path is None else f"sqlite:///{path}",
        json_serializer=dump_json,
        connect_args={"check_same_thread": False, "timeout": busy_timeout_s},
        **(
            {"poolclass": StaticPool}
            if single
            else {"poolclass": QueuePool, "pool_size": connections, "max_overflow": 0}
        ),
    )

    def on_connect(raw: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
        assert isinstance(raw, sqlite3.Connection)  # noqa: S101 - narrows the type
        _prepare(raw, clock, in_memory=path is None)

    event.listen(engine, "connect", on_connect)
    event.listen(engine, "begin", _begin)
    return engine


def _prepare(raw: sqlite3.Connection, clock: Clock, *, in_memory: bool) -> None:
    # The driver's own idea of when to begin would hide BEGIN IMMEDIATE from us.
    raw.isolation_level = None
    raw.create_function("yaffle_now_us", 0, clock.now_us)
    raw.execute("PRAGMA foreign_keys = ON")
    if not in_memory:
        raw.execute("PRAGMA journal_mode = WAL")
        # FULL: a commit that was acknowledged survives a power cut (NORMAL loses the last ones).
        raw.execute("PRAGMA synchronous = FULL")
        raw.execute("PRAGMA journal_size_limit = 67108864")


def _begin(conn: Connection) -> None:
    if conn.get_execution_options().get(WRITE):
        conn.exec_driver_sql("PRAGMA query_only = OFF")
        # IMMEDIATE: a deferred transaction that turns into a writer fails with "locked" half-way.
        conn.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        conn.exec_driver_sql("PRAGMA query_only = ON")
        conn.exec_driver_sql("BEGIN")


def in_transaction(conn: Connection) -> bool:
    """Say whether the transaction is still there: SQLite drops it by itself on some errors."""
    return bool(getattr(conn.connection.dbapi_connection, "in_transaction", False))


def stop_when(conn: Connection, late: Callable[[], bool] | None) -> None:
    """Have the statements on `conn` stopped once `late()` says so; None takes that back."""
    raw = conn.connection.dbapi_connection
    if set_handler := getattr(raw, "set_progress_handler", None):
        set_handler(late, 20_000)  # steps of SQLite's machine: some milliseconds


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


def unavailable(error: BaseException, where: object) -> StoreUnavailable | None:
    """Say what is wrong with the database itself; None if the error is somebody's bug or conflict.

    "no such table" arrives as an OperationalError too, yet waiting will not mend it.
    """
    origin = error.orig if isinstance(error, DBAPIError) else error
    if not isinstance(origin, sqlite3.Error):
        return None
    code = getattr(origin, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    advice = _ADVICE.get(code)
    if advice is None:
        return None
    return StoreUnavailable(f"database {where}: {origin}: {advice}")


def writes_in_read(error: BaseException) -> bool:
    """Say whether a unit of work tried to write on a reading connection: the caller's bug."""
    origin = error.orig if isinstance(error, DBAPIError) else error
    return getattr(origin, "sqlite_errorcode", None) == sqlite3.SQLITE_READONLY


def may_reuse(error: BaseException) -> bool:
    """Say whether the connection is sound after `error`; a new one is opened otherwise."""
    origin = error.orig if isinstance(error, DBAPIError) else error
    code = getattr(origin, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    return code not in {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def copy_database(source: Path, target: Path) -> None:
    """Write a consistent copy of `source`, WAL included, to the new file `target`."""
    with (
        contextlib.closing(sqlite3.connect(source)) as old,
        contextlib.closing(sqlite3.connect(target)) as new,
    ):
        old.backup(new)


def quick_check(conn: Connection) -> tuple[str, ...]:
    """Return what the database finds wrong with its own pages; empty is good."""
    rows = conn.exec_driver_sql("PRAGMA quick_check(20)").scalars()
    return tuple(str(row) for row in rows if row != "ok")


def dump_json(value: object) -> str:
    """Encode a JSON column: read-only mappings and sets too, never NaN."""
    return json.dumps(value, default=_plain, allow_nan=False, separators=(",", ":"))


def _plain(value: object) -> object:
    match value:
        case Mapping():
            return dict(value)
        case set() | frozenset():
            return sorted(value)
        case _:
            raise TypeError(f"{type(value).__name__} cannot be kept in a JSON column")
