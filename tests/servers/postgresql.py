"""A private PostgreSQL of the newest version that is installed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import psycopg
from tests.servers.process import Process

_NUMBERS = itertools.count(1)


def programs() -> Path | None:
    """Return the folder of the newest server's programs, None where there is none."""
    found = [p.parent for p in Path("/usr/lib/postgresql").glob("*/bin/postgres")]
    found += [
        Path(p) for p in ("/usr/local/pgsql/bin", "/usr/bin") if (Path(p) / "postgres").exists()
    ]
    return max(found, key=lambda p: [int(x) for x in p.parts if x.isdigit()], default=None)


class PostgreSQL(Process):
    """`url(name)` names one of its databases; `create()` makes a new one and returns its URL."""

    account = "postgres"
    kind = "postgresql"

    def __init__(self) -> None:
        super().__init__()
        bins = programs()
        assert bins is not None
        self.bins = bins
        self.run(
            str(bins / "initdb"), "-D", str(self.folder / "data"), "-N", "-A", "trust",
            "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8",
        )  # fmt: skip

    def command(self) -> Sequence[str]:
        """As `Process.command`; what a power cut would take is not what these tests are about."""
        settings = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": self.folder,
            "fsync": "off",
            "max_connections": 200,
            "shared_buffers": "32MB",
            "autovacuum_naptime": "10s",
        }
        flags = [f"-c{name}={value}" for name, value in settings.items()]
        return [str(self.bins / "postgres"), "-D", str(self.folder / "data"), *flags]

    def answers(self) -> bool:
        """As `Process.answers`."""
        try:
            self.sql("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def sql(self, *statements: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run statements as the superuser; return the rows of the last one that has any."""
        rows: list[tuple[object, ...]] = []
        with psycopg.connect(
            host="127.0.0.1", port=self.port, user="postgres", dbname=database,
            autocommit=True, connect_timeout=30,
        ) as conn:  # fmt: skip
            for statement in statements:
                cursor = conn.execute(statement)  # type: ignore[call-overload]
                rows = cursor.fetchall() if cursor.description else rows
        return rows

    def url(self, name: str) -> str:
        """Return the URL of one database."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{name}"

    def create(self, like: str = "") -> str:
        """Make a new database, empty or a copy of the one at a URL, and return its URL."""
        name = f"yaffle_{next(_NUMBERS)}"
        template = f" TEMPLATE {like.rpartition('/')[2]}" if like else ""
        self.sql(f"CREATE DATABASE {name}{template}")
        return self.url(name)

    def drop(self, url: str) -> None:
        """Remove a database, whoever is connected."""
        self.sql(f"DROP DATABASE IF EXISTS {url.rpartition('/')[2]} WITH (FORCE)")
