"""What the store's tests share: clocks, a child process to kill, units of work."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, func, insert, select

from yaffle.store import dialects, events, tables

CHILD = Path(__file__).with_name("child.py")


class WallClock:
    """The real time."""

    def now_us(self) -> int:
        return time.time_ns() // 1000

    def monotonic_s(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class HandClock(WallClock):
    """A wall clock that moves when told."""

    def __init__(self, at_us: int = 1_000_000) -> None:
        self.at_us = at_us

    def now_us(self) -> int:
        return self.at_us


def url(path: Path) -> str:
    return f"sqlite:///{path}"


@contextlib.contextmanager
def child(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run `child.py`; it has said "ready" when this yields, and is dead when this ends."""
    process = subprocess.Popen(
        [sys.executable, str(CHILD), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def put(key: str, *, size: int = 0) -> Callable[[Connection], str]:
    """A unit of work that leaves one row."""

    def work(conn: Connection) -> str:
        conn.execute(insert(tables.budgets).values(scope="t", key=key, tokens=1.0, updated_us=1))
        if size:
            tell(conn, key, reason="x" * size)
        return key

    return work


def tell(
    conn: Connection, oid: str, *, at_us: int = 1, reason: str = "", topics: int = 1, **about: str
) -> int:
    """Append an event with its news."""
    return events.append(
        conn,
        events.Subject(otype="node", oid=oid, **about),
        at_us=at_us,
        reason=reason,
        notify=[("log", f"topic.{number}", {"oid": oid}) for number in range(topics)],
    )


def keys(conn: Connection) -> Sequence[str]:
    return conn.execute(select(tables.budgets.c.key).order_by(tables.budgets.c.key)).scalars().all()


def count(conn: Connection, table: str) -> int:
    chosen = tables.metadata.tables[table]
    return conn.execute(select(func.count()).select_from(chosen)).scalar_one()


def opened(where: str) -> tuple[Engine, dialects.DatabaseUrl]:
    """Return one connection's engine to the database at this URL, as `open_store` makes it."""
    place = dialects.place_of(where)
    return dialects.make_engine(
        dialects.Opening(
            place=place, clock=WallClock(), connections=1, busy_timeout_s=1, hold_s=2.0
        )
    ), place


def place(request: pytest.FixtureRequest, folder: Path) -> str:
    """Return the URL of a new database of the kind that a fixture's parameter names."""
    match request.param:
        case "memory":
            return "sqlite://"
        case "postgresql" | "mariadb":
            name = "postgres_ready" if request.param == "postgresql" else "mariadb_ready"
            return str(request.getfixturevalue(name))
        case _:
            return url(folder / "y.db")
