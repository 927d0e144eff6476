"""The only place that knows which database it is: sessions, clocks, error codes, copies.

Everything else in `store/` is SQLAlchemy Core that runs on SQLite, PostgreSQL and MariaDB alike.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Final

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from yaffle.errors import StoreUnavailable
from yaffle.store.dialects.clock import now_us
from yaffle.store.dialects.encoding import dump_json
from yaffle.store.dialects.kind import WRITE, Advice, Fault, Kind, Opening
from yaffle.store.dialects.mariadb import MariaDB
from yaffle.store.dialects.postgresql import PostgreSQL
from yaffle.store.dialects.sqlite import SQLite, copy_database
from yaffle.store.dialects.url import DatabaseUrl, place_of

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

__all__ = [
    "ERRORS",
    "WRITE",
    "Fault",
    "Opening",
    "DatabaseUrl",
    "again",
    "copy_database",
    "dump_json",
    "kind_of",
    "make_engine",
    "may_reuse",
    "now_us",
    "place_of",
    "unavailable",
    "writes_in_read",
]

ERRORS: Final = (SQLAlchemyError, sqlite3.Error)
"""What the database layer raises; SQLite's own arrive bare while a connection is being made."""

_SQLITE: Final = SQLite()
_KINDS: Final[dict[str, Kind]] = {
    "sqlite": _SQLITE,
    "postgresql": PostgreSQL(),
    "mariadb": MariaDB(),
    "mysql": MariaDB(),
}
_BY_MODULE: Final = {"sqlite3": "sqlite", "psycopg": "postgresql", "pymysql": "mariadb"}


def make_engine(opening: Opening) -> Engine:
    """Return an engine with at most `opening.connections` open; with one, it is kept and shared."""
    return _KINDS[opening.place.kind].make_engine(opening)


def kind_of(conn: Connection) -> Kind:
    """Return what is particular about the database behind `conn`."""
    return _KINDS[conn.dialect.name]


def unavailable(error: BaseException, where: object) -> StoreUnavailable | None:
    """Say what is wrong with the database itself; None if the error is somebody's bug or conflict."""
    advice = _advice(error)
    if advice is None:
        return None
    told = " ".join(str(_origin(error)).split())
    return StoreUnavailable(f"database {where}: {told}: {advice.text}")


def again(error: BaseException) -> bool:
    """Say whether the transaction was undone because somebody else was first: run it again."""
    advice = _advice(error)
    return advice is not None and advice.fault is Fault.AGAIN


def took_too_long(error: BaseException) -> bool:
    """Say whether one statement was stopped for its time; the transaction can go on without it."""
    advice = _advice(error)
    return advice is not None and advice.fault is Fault.SLOW


def lost_connection(error: BaseException) -> bool:
    """Say whether it was the connection that failed; another one may work at once."""
    return isinstance(error, DBAPIError) and error.connection_invalidated


def writes_in_read(error: BaseException) -> bool:
    """Say whether a unit of work tried to write on a reading connection: the caller's bug."""
    advice = _advice(error)
    return advice is not None and advice.fault is Fault.READ_ONLY


def may_reuse(error: BaseException) -> bool:
    """Say whether the connection is sound after `error`; a new one is opened otherwise."""
    origin = _origin(error)
    kind = _kind_behind(origin)
    return kind is None or kind.may_reuse(origin)


def _origin(error: BaseException) -> BaseException:
    return error.orig if isinstance(error, DBAPIError) and error.orig is not None else error


def _kind_behind(origin: BaseException) -> Kind | None:
    name = _BY_MODULE.get(type(origin).__module__.partition(".")[0])
    return None if name is None else _KINDS[name]


def _advice(error: BaseException) -> Advice | None:
    origin = _origin(error)
    kind = _kind_behind(origin)
    return None if kind is None else kind.advice(origin)
