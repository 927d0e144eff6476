"""A PostgreSQL of the lab's own, behind a socket that nobody else may reach."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg import sql

from lab.openstack.errors import LabError
from lab.openstack.packages import postgresql
from lab.openstack.plan import Plan
from lab.openstack.processes import Processes, Service
from lab.openstack.templates import DATABASE_USER, socket_folder
from lab.openstack.waiting import until

ACCOUNT: Final = "postgres"
"""PostgreSQL refuses to be root."""
START_S: Final = 180.0
SETTINGS: Final = {
    "listen_addresses": "",
    # Whoever cuts the power has lost a toy.
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "min_wal_size": "8MB",
    "max_wal_size": "64MB",
}


def folder(plan: Plan) -> Path:
    """Return where the data is."""
    return plan.data / "postgresql"


def service(plan: Plan) -> Service:
    """Return the server."""
    flags = [f"-c{name}={value}" for name, value in SETTINGS.items()]
    command = [
        _program("postgres"),
        "-D",
        str(folder(plan)),
        "-k",
        str(socket_folder(plan)),
        *flags,
    ]
    return Service(
        name="postgresql",
        command=tuple(command),
        account=ACCOUNT,
        # "Fast": it does not wait until those who are connected have left.
        stop_signal=signal.SIGINT,
    )


def make(plan: Plan) -> None:
    """Make a server without a database, in place of one that was begun and not finished."""
    shutil.rmtree(folder(plan), ignore_errors=True)
    give(plan, folder(plan))
    command = [
        _program("initdb"), "-D", str(folder(plan)), "-U", DATABASE_USER, "--auth=trust",
        "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "--wal-segsize=1",
    ]  # fmt: skip
    if os.geteuid() == 0:
        command = [
            "setpriv",
            f"--reuid={ACCOUNT}",
            f"--regid={ACCOUNT}",
            "--clear-groups",
            *command,
        ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    if done.returncode:
        raise LabError(f"initdb failed: {done.stdout}{done.stderr}")


def start(plan: Plan, processes: Processes) -> None:
    """Start the server and wait until it lets us in."""
    give(plan, socket_folder(plan))
    server = service(plan)
    processes.start(server)

    def ready() -> bool:
        if not processes.alive(server.name):
            raise processes.death_of(server)
        try:
            execute(plan, "SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    until("PostgreSQL answers", ready, START_S)


def renew(plan: Plan, names: Sequence[str]) -> None:
    """Make databases empty, whatever was in them."""
    for name in names:
        execute(plan, "DROP DATABASE IF EXISTS {} WITH (FORCE)", name)
        execute(plan, "CREATE DATABASE {}", name)


def execute(plan: Plan, statement: str, *names: str, database: str = "postgres") -> None:
    """Run a statement with names of things filled in."""
    with connected(plan, database) as connection:
        connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


def close(plan: Plan, name: str) -> None:
    """Turn everybody out of a database, and let nobody in.

    What its clients hear is what oslo.db takes for "away": of any other words for it Nova makes a fault
    of its own, and lists nobody at all.
    """
    away = "ALTER DATABASE {} SET session_preload_libraries = 'could not connect to server'"
    execute(plan, away, name)
    turned_out = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
    with connected(plan, "postgres") as connection:
        connection.execute(turned_out, [name])


def reopen(plan: Plan, name: str) -> None:
    """Let everybody in again."""
    execute(plan, "ALTER DATABASE {} RESET session_preload_libraries", name)


def connected(plan: Plan, database: str) -> psycopg.Connection[tuple[Any, ...]]:
    """Return a connection to one of the lab's databases; each statement stands by itself."""
    return psycopg.connect(
        host=str(socket_folder(plan)), user=DATABASE_USER, dbname=database, autocommit=True,
        connect_timeout=60,
    )  # fmt: skip


def give(plan: Plan, path: Path) -> None:
    """Make a folder that is the server's own."""
    path.mkdir(mode=0o700, exist_ok=True)
    if os.geteuid() == 0:
        entry = pwd.getpwnam(ACCOUNT)
        os.chown(path, entry.pw_uid, entry.pw_gid)


def _program(name: str) -> str:
    bins = postgresql()
    if bins is None:
        raise LabError("no PostgreSQL server is installed (package postgresql)")
    return str(bins / name)
