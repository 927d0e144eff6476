"""PostgreSQL by psycopg 3. Everything is set per transaction: poolers may lend a connection for one.

Writers run at READ COMMITTED: each statement sees what was committed before it, and the turn that
every write begins with (`store.commit_sequence`) lets one run at a time. Readers see one snapshot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from sqlalchemy import create_engine, event, text
from sqlalchemy.pool import QueuePool

from yaffle.errors import ConfigError
from yaffle.store.dialects.encoding import dump_json
from yaffle.store.dialects.kind import WRITE, Advice, Fault

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

    from yaffle.store.dialects.kind import Opening
    from yaffle.store.dialects.url import DatabaseUrl

CONNECT_S: Final = 5
STATEMENT_S: Final = 15
READER_HOLD_S: Final = 60
_SILENCE: Final[dict[str, object]] = {
    # A peer that is cut off is noticed within about five seconds, whichever way bytes should flow.
    "connect_timeout": CONNECT_S,
    "keepalives": 1,
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 5000,
}
_SCHEMA_LOCK: Final = 0x7961_6666  # "yaff", one number for all who migrate

_ADVICE: Final[dict[str, str]] = {
    "08": "the connection failed; check that the server runs and can be reached; it is tried again",
    "28": "it refused the user or the password; check database.url and the server's pg_hba.conf",
    "3D": "there is no such database; create it (packaging/postgresql), or check database.url",
    "42501": "the user may not do this; give the database to Yaffle's role (packaging/postgresql)",
    "25P03": "it threw out a writer that was silent for too long; was this process frozen?",
    "25006": "it only takes reads now, as a standby does; check database.url or finish the fail-over",
    "53": "it ran out of disk, memory or connections; look at the server",
    "55P03": "another writer did not finish in time; look at the server's pg_stat_activity",
    "57014": "the statement took too long and was stopped",
    "57": "it is starting or stopping; it is tried again",
    "58": "its system failed; look at the server's log",
    "F0": "its configuration file is locked or broken; look at the server's log",
    "XX": "it is damaged or broken inside; look at the server's log",
}
"""What to do, by SQLSTATE or its class; the exact one goes first."""
_AGAIN: Final = {"40001", "40P01", "40000", "40002"}
_FAULTS: Final = {"25006": Fault.READ_ONLY, "57014": Fault.SLOW}


class PostgreSQL:
    """As `Kind`."""

    transactional_ddl = True
    nulls_are_largest = True

    def make_engine(self, opening: Opening) -> Engine:
        """As `Kind.make_engine`; the URL's query goes to libpq (`?sslmode=verify-full`)."""
        url = opening.place.url
        given = dict(url.query)
        # psycopg prepares what it has seen five times; older transaction poolers cannot follow.
        extra = {"prepare_threshold": None} if given.pop("prepare", "on") == "off" else {}
        engine = create_engine(
            url.set(query=given),
            json_serializer=dump_json,
            poolclass=QueuePool,
            pool_size=opening.connections,
            max_overflow=0,
            pool_timeout=opening.busy_timeout_s,
            connect_args={
                **{key: value for key, value in _SILENCE.items() if key not in given},
                "application_name": given.get("application_name", "yaffle"),
                **extra,
            },
        )
        writing, reading = _openings(opening)

        def begin(conn: Connection) -> None:
            write = conn.get_execution_options().get(WRITE)
            conn.exec_driver_sql(writing if write else reading)

        event.listen(engine, "begin", begin)
        return engine

    def check(self, conn: Connection) -> None:
        """As `Kind.check`."""
        found = conn.exec_driver_sql("SHOW server_encoding").scalar_one()
        if found != "UTF8":
            raise ConfigError(
                f"the database's encoding is {found}, and names may hold any character:"
                " create it with ENCODING 'UTF8' TEMPLATE template0"
            )

    def prepare_empty(self, conn: Connection) -> None:
        """There is nothing to set up."""

    def lock_schema(self, conn: Connection) -> None:
        """As `Kind.lock_schema`."""
        conn.exec_driver_sql("SET LOCAL statement_timeout = 0")
        conn.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
        conn.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _SCHEMA_LOCK})

    def in_transaction(self, conn: Connection) -> bool:
        """As `Kind.in_transaction`; one that has failed inside is none any more."""
        info = getattr(conn.connection.dbapi_connection, "info", None)
        return info is not None and info.transaction_status.name in {"INTRANS", "ACTIVE"}

    def stop_when(self, conn: Connection, late: Callable[[], bool] | None) -> None:
        """Every transaction has brought its statement_timeout along."""

    def advice(self, origin: BaseException) -> Advice | None:
        """As `Kind.advice`."""
        state = getattr(origin, "sqlstate", None)
        if state is None:
            # The connection itself failed: there was no server to give a code.
            lost = type(origin).__name__ in {
                "OperationalError",
                "InterfaceError",
                "ConnectionTimeout",
            }
            return Advice(fault=Fault.AWAY, text=_ADVICE["08"]) if lost else None
        if state in _AGAIN:
            return Advice(fault=Fault.AGAIN, text="somebody else was first; it is tried again")
        found = _ADVICE.get(state) or _ADVICE.get(state[:2])
        if found is None:
            return None
        return Advice(fault=_FAULTS.get(state, Fault.AWAY), text=found)

    def may_reuse(self, origin: BaseException) -> bool:
        """As `Kind.may_reuse`; a new connection costs little."""
        return self.advice(origin) is None

    def damages(self, conn: Connection) -> tuple[str, ...]:
        """The server checks its own pages."""
        return ()

    def size_bytes(self, conn: Connection, place: DatabaseUrl) -> int:
        """As `Kind.size_bytes`."""
        return int(conn.exec_driver_sql("SELECT pg_database_size(current_database())").scalar_one())


def _openings(opening: Opening) -> tuple[str, str]:
    """Return what a writing and a reading transaction begin with; one round trip each."""
    hold_ms, wait_ms = int(opening.hold_s * 1000), int(opening.busy_timeout_s * 1000)
    common = f"SET LOCAL statement_timeout = {STATEMENT_S * 1000}"
    writing = (
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;"
        f" {common}; SET LOCAL lock_timeout = {wait_ms};"
        f" SET LOCAL idle_in_transaction_session_timeout = {hold_ms};"
        # A commit that was said to have happened is on disk, whatever the server's default.
        " SET LOCAL synchronous_commit = on"
    )
    reading = (
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;"
        f" {common}; SET LOCAL idle_in_transaction_session_timeout = {READER_HOLD_S * 1000}"
    )
    return writing, reading
