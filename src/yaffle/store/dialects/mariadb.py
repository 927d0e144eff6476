"""MariaDB by PyMySQL. Writers run at READ COMMITTED behind the turn, readers see one snapshot.

MySQL itself cannot throw out a session that was frozen inside a transaction, and is refused.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from sqlalchemy import create_engine, event, text
from sqlalchemy.pool import QueuePool

from yaffle.errors import ConfigError
from yaffle.store.dialects.encoding import dump_json
from yaffle.store.dialects.kind import WRITE, Advice, Fault

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine
    from sqlalchemy.engine.interfaces import DBAPIConnection
    from sqlalchemy.pool import ConnectionPoolEntry

    from yaffle.store.dialects.kind import Opening
    from yaffle.store.dialects.url import DatabaseUrl

CONNECT_S: Final = 5
STATEMENT_S: Final = 15
READER_HOLD_S: Final = 60
COLLATION: Final = "utf8mb4_nopad_bin"
"""Names that differ in case, accents or a blank at the end are different, as everywhere else."""
_CUT_MS: Final = 5000
_SCHEMA_LOCK: Final = "yaffle schema"

_AGAIN: Final = {1213, 1305, 1020, 1412}
"""Deadlock (on Galera: another node's writer was first), and the savepoint that it took along; 1020,
1412: a row or a table has changed since the snapshot."""
_READ_ONLY: Final = {1792}
_SLOW: Final = 1969
_ADVICE: Final[dict[int, str]] = {
    0: "the connection is closed; it is tried again",
    1021: "its disk is full; look at the server",
    1028: "its disk is full or broken; look at the server",
    1040: "it has too many connections; raise max_connections, or run fewer processes",
    1044: "the user may not use this database; see packaging/mariadb",
    1045: "it refused the user or the password; check database.url",
    1047: "this node is not part of its cluster now; it is tried again",
    1049: "there is no such database; create it (packaging/mariadb), or check database.url",
    1053: "it is stopping; it is tried again",
    1105: "it failed inside; look at the server's log",
    1114: "a table is full: its disk is full; look at the server",
    1129: "it blocks this host after too many errors; `mariadb-admin flush-hosts`",
    1130: "it does not let this host in; check the user's host part",
    1142: "the user may not do this; see packaging/mariadb",
    1180: "the commit failed; look at the server's log",
    1205: "another writer did not finish in time; look at the server's process list",
    1290: "it only takes reads now; check database.url or finish the fail-over",
    1317: "the statement was interrupted; it is tried again",
    1836: "it only takes reads now; check database.url or finish the fail-over",
    1927: "it closed the connection; it is tried again",
    1969: "the statement took too long and was stopped",
    2002: "it cannot be reached; check that the server runs",
    2003: "it cannot be reached; check that the server runs and the address is right",
    2005: "its host name is unknown; check database.url",
    2006: "the connection was lost; was this process frozen? It is tried again",
    2013: "the connection was lost; it is tried again",
    2014: "the connection is out of step; a new one is opened",
    4031: "it closed a connection that was silent; was this process frozen?",
}
"""What to do, by error code. Codes that are not here are bugs of ours."""


class MariaDB:
    """As `Kind`."""

    transactional_ddl = False
    nulls_are_largest = False

    def make_engine(self, opening: Opening) -> Engine:
        """As `Kind.make_engine`; the URL's query goes to the driver (`?ssl_ca=/etc/…`)."""
        given = opening.place.url.query
        engine = create_engine(
            opening.place.url,
            json_serializer=dump_json,
            poolclass=QueuePool,
            pool_size=opening.connections,
            max_overflow=0,
            pool_timeout=opening.busy_timeout_s,
            connect_args={
                **({} if "charset" in given else {"charset": "utf8mb4"}),
                "connect_timeout": CONNECT_S,
                "read_timeout": STATEMENT_S + 2,
                "write_timeout": CONNECT_S,
                "init_command": _session(opening),
            },
        )
        event.listen(engine, "connect", _notice_silence)
        event.listen(engine, "begin", _begin)
        return engine

    def check(self, conn: Connection) -> None:
        """As `Kind.check`."""
        version, collation = conn.exec_driver_sql("SELECT VERSION(), @@collation_database").one()
        if "mariadb" not in str(version).lower():
            raise ConfigError(
                f"the server is MySQL {version}, which cannot throw out a writer that was frozen"
                " inside a transaction; use MariaDB 10.6 or newer, or PostgreSQL"
            )
        if collation != COLLATION:
            raise ConfigError(
                f"the database's collation is {collation}, which takes different names for the same:"
                f" ALTER DATABASE … CHARACTER SET utf8mb4 COLLATE {COLLATION} before it holds tables"
            )

    def prepare_empty(self, conn: Connection) -> None:
        """Give the database the collation that its tables will have."""
        conn.exec_driver_sql(f"ALTER DATABASE CHARACTER SET utf8mb4 COLLATE {COLLATION}")

    def lock_schema(self, conn: Connection) -> None:
        """As `Kind.lock_schema`; the connection's own lock, since every DDL statement commits."""
        for name in ("max_statement_time", "idle_transaction_timeout"):
            conn.exec_driver_sql(f"SET SESSION {name} = 0")
        conn.exec_driver_sql("SET SESSION idle_write_transaction_timeout = 0")
        got = conn.execute(text("SELECT GET_LOCK(:name, 60)"), {"name": _SCHEMA_LOCK}).scalar_one()
        if got != 1:
            raise ConfigError("another migration of this database did not end within 60 s")
        # What was seen before the wait is of no use after another's migration.
        conn.exec_driver_sql("COMMIT")

    def in_transaction(self, conn: Connection) -> bool:
        """As `Kind.in_transaction`: the server says so with every answer."""
        raw = conn.connection.dbapi_connection
        return bool(getattr(raw, "server_status", 1) & 1)

    def stop_when(self, conn: Connection, late: Callable[[], bool] | None) -> None:
        """Every session has its max_statement_time."""

    def advice(self, origin: BaseException) -> Advice | None:
        """As `Kind.advice`."""
        code = origin.args[0] if origin.args else None
        if code in _AGAIN:
            return Advice(fault=Fault.AGAIN, text="somebody else was first; it is tried again")
        if code in _READ_ONLY:
            return Advice(fault=Fault.READ_ONLY)
        found = _ADVICE.get(code) if isinstance(code, int) else None
        fault = Fault.SLOW if code == _SLOW else Fault.AWAY
        return None if found is None else Advice(fault=fault, text=found)

    def may_reuse(self, origin: BaseException) -> bool:
        """As `Kind.may_reuse`; a new connection costs little."""
        return self.advice(origin) is None

    def damages(self, conn: Connection) -> tuple[str, ...]:
        """The server checks its own pages."""
        return ()

    def size_bytes(self, conn: Connection, place: DatabaseUrl) -> int:
        """As `Kind.size_bytes`."""
        return int(
            conn.exec_driver_sql(
                "SELECT COALESCE(SUM(data_length + index_length), 0)"
                " FROM information_schema.tables WHERE table_schema = DATABASE()"
            ).scalar_one()
        )


def _session(opening: Opening) -> str:
    """Return what every session begins with. The server counts silence in whole seconds."""
    hold_s = max(1, round(opening.hold_s))
    wait_s = max(1, round(opening.busy_timeout_s))
    return (
        "SET SESSION time_zone = '+00:00',"
        " sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO',"
        " tx_isolation = 'REPEATABLE-READ',"
        f" max_statement_time = {STATEMENT_S}, innodb_lock_wait_timeout = {wait_s},"
        # A reader that thinks for long about what it has read keeps nobody waiting.
        f" idle_transaction_timeout = {READER_HOLD_S}, idle_write_transaction_timeout = {hold_s}"
    )


def _notice_silence(raw: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    """Have the kernel notice a peer that is cut off; the driver has no setting for it."""
    sock = getattr(raw, "_sock", None)
    if isinstance(sock, socket.socket) and sock.family in {socket.AF_INET, socket.AF_INET6}:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _CUT_MS)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 2)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)


def _begin(conn: Connection) -> None:
    if conn.get_execution_options().get(WRITE):
        # For the next transaction only. On Galera, too, a turn sees the turn before.
        conn.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        conn.exec_driver_sql("START TRANSACTION READ WRITE")
    else:
        conn.exec_driver_sql("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
