"""A private MariaDB."""

from __future__ import annotations

import itertools
import shutil
import signal
from collections.abc import Sequence

import pymysql
from tests.servers.process import Process

_NUMBERS = itertools.count(1)


def program() -> str | None:
    """Return the server's program, None where there is none."""
    return shutil.which("mariadbd", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")


class MariaDB(Process):
    """`url(name)` names one of its databases; `create()` makes a new one and returns its URL."""

    account = "mysql"
    kind = "mariadb"

    def __init__(self) -> None:
        super().__init__()
        self.run(
            "mariadb-install-db", "--no-defaults", f"--datadir={self.folder / 'data'}",
            "--auth-root-authentication-method=normal", "--skip-test-db",
        )  # fmt: skip

    def command(self) -> Sequence[str]:
        """As `Process.command`; what a power cut would take is not what these tests are about."""
        found = program()
        assert found is not None
        return [
            found, "--no-defaults", f"--datadir={self.folder / 'data'}", f"--port={self.port}",
            f"--socket={self.folder / 'sock'}", f"--pid-file={self.folder / 'pid'}",
            "--bind-address=127.0.0.1", "--innodb-flush-log-at-trx-commit=2", "--skip-log-bin",
            "--innodb-buffer-pool-size=64M", "--max-connections=200", "--skip-name-resolve",
        ]  # fmt: skip

    def stop(self) -> None:
        """As `Process.stop`; SIGINT means nothing to it."""
        self._end(signal.SIGTERM)

    def answers(self) -> bool:
        """As `Process.answers`."""
        try:
            self.sql("SELECT 1")
        except pymysql.err.OperationalError:
            return False
        return True

    def sql(self, *statements: str, database: str | None = None) -> list[tuple[object, ...]]:
        """Run statements as root; return the rows of the last one."""
        conn = pymysql.connect(
            host="127.0.0.1", port=self.port, user="root", database=database,
            autocommit=True, connect_timeout=30,
        )  # fmt: skip
        try:
            with conn.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
                return list(cursor.fetchall())
        finally:
            conn.close()

    def url(self, name: str) -> str:
        """Return the URL of one database."""
        return f"mariadb://root@127.0.0.1:{self.port}/{name}"

    def create(self) -> str:
        """Make a new, empty database and return its URL."""
        name = f"yaffle_{next(_NUMBERS)}"
        self.sql(f"CREATE DATABASE {name}")
        return self.url(name)

    def drop(self, url: str) -> None:
        """Remove a database, whoever is connected."""
        name = url.rpartition("/")[2]
        self.sql(f"DROP DATABASE IF EXISTS {name}")

    def empty(self, url: str) -> None:
        """Put a database back to what the migrations leave; quicker than to make it anew."""
        name = url.rpartition("/")[2]
        tables = [str(row[0]) for row in self.sql("SHOW TABLES", database=name)]
        kept = {"alembic_version", "counters"}
        self.sql(
            "SET FOREIGN_KEY_CHECKS = 0",
            *(f"TRUNCATE TABLE `{table}`" for table in tables if table not in kept),
            "DELETE FROM counters WHERE name NOT IN ('turn', 'oldest_program')",
            "UPDATE counters SET value = 0 WHERE name = 'turn'",
            database=name,
        )
