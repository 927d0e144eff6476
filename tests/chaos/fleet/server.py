"""The database as the judge sees it: read by plain drivers, never through the code under test."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psycopg
import pymysql
from psycopg.rows import dict_row
from tests.servers.fixtures import Server
from tests.servers.postgresql import PostgreSQL
from tests.servers.process import StillThere

Row = Mapping[str, Any]
ERRORS = (psycopg.Error, pymysql.err.Error, OSError)
NOW = {
    "postgresql": "select (extract(epoch from clock_timestamp()) * 1000000)::bigint as now_us",
    "mariadb": "select timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) as now_us",
}
SNAPSHOT = {
    "postgresql": "begin transaction isolation level repeatable read read only",
    "mariadb": "start transaction with consistent snapshot, read only",
}


class Reader:
    """One connection that only reads; raises one of ERRORS where the server does not answer soon."""

    def __init__(self, server: Server, database: str, *, patience_s: int = 2) -> None:
        self.kind = server.kind
        if isinstance(server, PostgreSQL):
            self._conn: Any = psycopg.connect(
                host="127.0.0.1", port=server.port, user="postgres", dbname=database,
                autocommit=True, connect_timeout=patience_s, row_factory=dict_row,
                options=f"-c statement_timeout={patience_s * 1000} -c default_transaction_read_only=on",
            )  # fmt: skip
        else:
            self._conn = pymysql.connect(
                host="127.0.0.1", port=server.port, user="root", database=database,
                autocommit=True, connect_timeout=patience_s, read_timeout=patience_s,
                cursorclass=pymysql.cursors.DictCursor,
            )  # fmt: skip

    def rows(self, sql: str, *values: object) -> Sequence[Row]:
        """Return the rows of one statement; placeholders are %s."""
        with self._conn.cursor() as cursor:
            cursor.execute(sql, values or None)
            return list(cursor.fetchall()) if cursor.description else []

    def moment(self) -> tuple[int, int]:
        """Return the server's clock (µs) and whose turn it is: every write moves that."""
        found = self.rows(f"{NOW[self.kind]}, value from counters where name = 'turn'")[0]
        return int(found["now_us"]), int(found["value"])

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """See one moment until the block ends."""
        self.rows(SNAPSHOT[self.kind])
        yield
        self.rows("rollback")

    def close(self) -> None:
        """Let go of the connection, whatever state it is in."""
        with contextlib.suppress(*ERRORS):
            self._conn.close()


def plain(value: object) -> Any:
    """Return what a column of JSON holds; one driver parses it, the other does not."""
    return json.loads(value) if isinstance(value, str | bytes) else value


def ended(server: Server) -> None:
    """End it in order, or by force; what was committed is there either way.

    PostgreSQL waits up to `authentication_timeout` for whoever connects while it shuts down and then
    says nothing, and an engine that is frozen at that moment says nothing.
    """
    try:
        server.stop()
    except StillThere as story:
        print(f"the database was killed: {story}", flush=True)
        server.kill()


def keep(server: Server) -> None:
    """Keep the present state to go back to; stops and starts the server."""
    ended(server)
    shutil.rmtree(server.folder / "kept", ignore_errors=True)
    server.run("cp", "-a", str(server.folder / "data"), str(server.folder / "kept"))
    server.start()


def go_back(server: Server) -> None:
    """Let the server be as it was when it was last kept, as after a fail-over that lost commits."""
    server.kill()
    shutil.rmtree(server.folder / "data")
    server.run("cp", "-a", str(server.folder / "kept"), str(server.folder / "data"))
    (server.folder / "data" / "postmaster.pid").unlink(missing_ok=True)
    server.start()
