"""The set-ups for PostgreSQL, PgBouncer and MariaDB, applied to private servers as they are packaged."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg
import pymysql
import pytest
from tests.packaging.nodes import cluster_of_two
from tests.packaging.places import PACKAGING
from tests.packaging.serving import Serving, until, yaffle
from tests.servers.mariadb import MariaDB, program
from tests.servers.postgresql import PostgreSQL
from tests.servers.process import Process

PASSWORD = "pass-word%40"
QUOTED = "pass-word%2540"
SECRET = "secret"


def psql(server: PostgreSQL, file: Path) -> None:
    done = subprocess.run(
        [
            *("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", str(file)),
            *("-h", "127.0.0.1", "-p", str(server.port), "-U", "postgres", "-d", "postgres"),
        ],
        env={**os.environ, "YAFFLE_PASSWORD": PASSWORD},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def of_this_machine(sample: Path) -> str:
    """Return a sample with loopback in place of its network, and without TLS."""
    text = sample.read_text().replace("hostssl", "host   ")
    return text.replace("10.0.0.0/24", "127.0.0.1/32")


@pytest.fixture
def prepared(own_postgresql: PostgreSQL) -> PostgreSQL:
    """A server with settings, role, database and access as packaged, but for standbys and TLS."""
    server = own_postgresql
    data = server.folder / "data"
    settings = (PACKAGING / "postgresql/yaffle.conf").read_text()
    settings, alone = re.subn(r"^synchronous_standby_names = .*$", "", settings, flags=re.MULTILINE)
    assert alone == 1
    with (data / "postgresql.conf").open("a") as file:
        file.write(settings)
    psql(server, PACKAGING / "postgresql/create.sql")
    access = of_this_machine(PACKAGING / "postgresql/pg_hba.conf")
    (data / "pg_hba.conf").write_text(f"host all postgres 127.0.0.1/32 trust\n{access}")
    server.restart()
    return server


def url_of(server: PostgreSQL, *, port: int | None = None, more: str = "") -> str:
    return f"postgresql://yaffle:{QUOTED}@127.0.0.1:{port or server.port}/yaffle{more}"


def connected(server: PostgreSQL, user: str, database: str = "yaffle") -> psycopg.Connection:
    return psycopg.connect(
        host="127.0.0.1", port=server.port, user=user, password=PASSWORD, dbname=database
    )


@pytest.mark.skipif(shutil.which("psql") is None, reason="there is no psql")
def test_postgresql_as_packaged(prepared: PostgreSQL, tmp_path: Path) -> None:
    url = url_of(prepared)
    assert "schema" in yaffle("db", "migrate", "--database", url, folder=tmp_path)
    yaffle("db", "check", "--database", url, folder=tmp_path)
    found = prepared.sql(
        "SELECT pg_encoding_to_char(encoding), datcollate, datctype, rolname FROM pg_database"
        " JOIN pg_roles ON datdba = pg_roles.oid WHERE datname = 'yaffle'"
    )
    assert found == [("UTF8", "C", "C", "yaffle")]
    # Its own database and no more.
    with connected(prepared, "yaffle") as conn, pytest.raises(psycopg.errors.InsufficientPrivilege):
        conn.execute("CREATE ROLE other")
    with pytest.raises(psycopg.OperationalError):
        connected(prepared, "yaffle", "postgres")
    # Who makes backups reads, and does not write.
    with connected(prepared, "yafflebackup") as conn:
        assert conn.execute("SELECT count(*) FROM counters").fetchone()
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            conn.execute("UPDATE counters SET value = 0")
    # Those that were closed are still listed for a moment, that of the start among them.
    until(lambda: yaffle_connections(prepared) == 0)
    with Serving(tmp_path, env={"YAFFLE_DATABASE__URL": url}) as server:
        server.until_acting()
        # Two processes of it use the database, the engine and the API, with at most five each.
        for _ in range(20):
            held = connections_of_each(server.process.pid, prepared.port)
            assert 1 <= len(held) <= 2, held
            assert max(held.values()) <= 5, held


def connections_of_each(root: int, port: int) -> Counter[int]:
    """How many connections to that port each process of a service holds."""
    found: Counter[int] = Counter()
    service = psutil.Process(root)
    for process in (service, *service.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            for one in process.net_connections("tcp"):
                if one.raddr and one.raddr.port == port and one.status == psutil.CONN_ESTABLISHED:
                    found[process.pid] += 1
    return found


def yaffle_connections(server: PostgreSQL) -> int:
    [(count,)] = server.sql("SELECT count(*) FROM pg_stat_activity WHERE usename = 'yaffle'")
    assert isinstance(count, int)
    return count


class Standby(Process):
    """A second server that follows a first one."""

    account = "postgres"

    def __init__(self, primary: PostgreSQL) -> None:
        super().__init__()
        self._bins = primary.bins
        self.run(
            *(str(self._bins / "pg_basebackup"), "-D", str(self.folder / "data"), "-R"),
            *("-d", f"host=127.0.0.1 port={primary.port} user=postgres application_name=standby1"),
        )

    def command(self) -> list[str]:
        """As `Process.command`."""
        return [
            *(str(self._bins / "postgres"), "-D", str(self.folder / "data")),
            *(f"-cport={self.port}", f"-cunix_socket_directories={self.folder}"),
        ]

    def answers(self) -> bool:
        """As `Process.answers`."""
        with suppress(psycopg.OperationalError):
            return self.turn() >= 0
        return False

    def turn(self) -> int:
        """Return the turn that it knows of."""
        with psycopg.connect(
            host="127.0.0.1", port=self.port, user="postgres", dbname="yaffle", connect_timeout=30
        ) as conn:
            row = conn.execute("SELECT value FROM counters WHERE name = 'turn'").fetchone()
        assert row
        return int(row[0])

    def promote(self) -> None:
        """Make it the one that is written to."""
        self.run(str(self._bins / "pg_ctl"), "promote", "-w", "-D", str(self.folder / "data"))


@pytest.mark.skipif(shutil.which("psql") is None, reason="there is no psql")
def test_what_was_acknowledged_is_on_the_standby(prepared: PostgreSQL, tmp_path: Path) -> None:
    """The precondition as packaged: a fail-over loses no turn, and without a standby none is taken."""
    yaffle("db", "migrate", "--database", url_of(prepared), folder=tmp_path)
    hba = prepared.folder / "data/pg_hba.conf"
    hba.write_text("host replication postgres 127.0.0.1/32 trust\n" + hba.read_text())
    prepared.sql("SELECT pg_reload_conf()")
    standby = Standby(prepared)
    try:
        standby.start()
        names = re.search(
            r"^synchronous_standby_names = (.*)$",
            (PACKAGING / "postgresql/yaffle.conf").read_text(),
            re.MULTILINE,
        )
        assert names
        prepared.sql(f"ALTER SYSTEM SET synchronous_standby_names = {names[1]}")
        prepared.sql("SELECT pg_reload_conf()")
        until(lambda: prepared.sql("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"))
        acknowledged = 0
        with connected(prepared, "yaffle") as conn:
            conn.autocommit = True
            taken = "UPDATE counters SET value = value + 1 WHERE name = 'turn' RETURNING value"
            for _ in range(300):
                row = conn.execute(taken).fetchone()
                assert row
                acknowledged = row[0]
            # A standby that hangs: nothing more is acknowledged, so nothing can be lost.
            standby.freeze()
            with ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(conn.execute, taken)
                with pytest.raises(TimeoutError):
                    waiting.result(timeout=2)
                standby.thaw()
                row = waiting.result(timeout=60).fetchone()
            assert row
            acknowledged = row[0]
        prepared.kill()
        standby.promote()
        assert standby.turn() >= acknowledged
    finally:
        standby.remove()


class PgBouncer(Process):
    """A real PgBouncer with the packaged settings, but for places and TLS."""

    account = "postgres"

    def __init__(self, server: PostgreSQL) -> None:
        super().__init__()
        users = self.folder / "userlist.txt"
        users.write_text(f'"yaffle" "{PASSWORD}"\n')
        text = (PACKAGING / "postgresql/pgbouncer.ini").read_text()
        for sample, ours in {
            "host=10.0.0.5 port=5432": f"host=127.0.0.1 port={server.port}",
            "listen_port = 6432": f"listen_port = {self.port}",
            "/etc/pgbouncer/userlist.txt": str(users),
            "server_tls_sslmode = verify-full": "server_tls_sslmode = disable",
            "server_tls_ca_file = /etc/ssl/certs/ca-certificates.crt": "unix_socket_dir =",
        }.items():
            assert text.count(sample) == 1, sample
            text = text.replace(sample, ours)
        self._config = self.folder / "pgbouncer.ini"
        self._config.write_text(text)
        self._config.chmod(0o644)
        users.chmod(0o644)

    def command(self) -> list[str]:
        """As `Process.command`."""
        return ["pgbouncer", str(self._config)]

    def answers(self) -> bool:
        """As `Process.answers`."""
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            return True
        return False


@pytest.mark.skipif(shutil.which("pgbouncer") is None, reason="there is no pgbouncer")
@pytest.mark.timeout(300)
def test_pgbouncer_as_packaged(prepared: PostgreSQL, tmp_path: Path) -> None:
    bouncer = PgBouncer(prepared)
    try:
        bouncer.start()
        url = url_of(prepared, port=bouncer.port, more="?prepare=off")
        yaffle("db", "migrate", "--database", url, folder=tmp_path)
        env = {"YAFFLE_DATABASE__URL": url}
        with (
            Serving(tmp_path, "--allow-local-process", env=env) as server,
            cluster_of_two(server),
        ):
            # Nothing was found wanting in a while of watching, deciding and healing.
            assert "database unavailable" not in server.log.read_text()
    finally:
        bouncer.remove()


def with_users(server: MariaDB) -> str:
    """Make database and users as packaged, but for network and TLS; return the URL of Yaffle's own."""
    text = (PACKAGING / "mariadb/create.sql").read_text()
    text = (
        text.replace("10.0.0.%", "%").replace("REQUIRE SSL ", "").replace("PASSWORD'", f"{SECRET}'")
    )
    plain = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    server.sql(*(s for s in map(str.strip, plain.split(";")) if s))
    return f"mariadb://yaffle:{SECRET}@127.0.0.1:{server.port}/yaffle"


@pytest.mark.skipif(program() is None, reason="there is no MariaDB server")
def test_mariadb_as_packaged(own_mariadb: MariaDB, tmp_path: Path) -> None:
    url = with_users(own_mariadb)
    yaffle("db", "migrate", "--database", url, folder=tmp_path)
    yaffle("db", "check", "--database", url, folder=tmp_path)
    with pytest.raises(pymysql.err.OperationalError):
        pymysql.connect(
            host="127.0.0.1",
            port=own_mariadb.port,
            user="yaffle",
            password="secret",
            database="mysql",
        )
    with Serving(tmp_path, env={"YAFFLE_DATABASE__URL": url}) as server:
        server.until_acting()


@pytest.mark.skipif(program() is None, reason="there is no MariaDB server")
@pytest.mark.parametrize("galera", [False, True])
def test_mariadb_knows_every_setting(galera: bool, tmp_path: Path) -> None:
    text = (PACKAGING / "mariadb/yaffle.cnf").read_text()
    text = text.replace("#wsrep", "wsrep") if galera else text
    file = tmp_path / "yaffle.cnf"
    file.write_text(text)
    found = program()
    assert found
    done = subprocess.run(
        [found, f"--defaults-file={file}", "--user=mysql", "--help", "--verbose"],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert "unknown variable" not in done.stdout + done.stderr
    for name, value in re.findall(r"^(\w+) = (\d+)$", text, re.MULTILINE):
        assert re.search(rf"^{name.replace('_', '-')} +{value}$", done.stdout, re.MULTILINE), name
