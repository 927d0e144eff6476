"""Facts about a database for `yaffle doctor`: read without the engine's lock, changing nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import func, inspect, select

from yaffle.errors import ConfigError
from yaffle.store import dialects, migrate, outbox
from yaffle.store.tables import outbox as outbox_table

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy import Connection

    from yaffle.ports.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is so; `problems` says what is wrong, one sentence each, empty when nothing is."""

    path: Path
    size_bytes: int
    """Of the file and its write-ahead log."""
    schema: str | None
    expected_schema: str
    outbox_pending: int | None
    """None: could not be counted with this schema."""
    outbox_parked: int | None
    outbox_oldest_s: float | None
    """Age of the oldest undelivered news; None when nothing waits."""
    problems: tuple[str, ...]


def check(url: str, *, clock: Clock) -> Facts:
    """Look at the database at `url`; it may be older, newer, damaged or in use by an engine.

    Raises ConfigError when there is no such file, StoreUnavailable when it cannot be read at all.
    """
    path = dialects.database_path(url)
    if path is None or not path.exists():
        raise ConfigError(f"database.url = {url!r}: there is no such file; start Yaffle once")
    engine = dialects.make_engine(path, clock=clock, connections=1, busy_timeout_s=5.0)
    try:
        with engine.connect() as conn, conn.begin():
            return _look(conn, path, clock.now_us())
    except dialects.ERRORS as error:
        if lost := dialects.unavailable(error, path):
            raise lost from error
        raise
    finally:
        engine.dispose()


def _look(conn: Connection, path: Path, now_us: int) -> Facts:
    schema = migrate.version(conn)
    problems = [f"damaged: {line}" for line in dialects.quick_check(conn)]
    if schema != migrate.HEAD:
        problems.append(
            f"the schema is {schema or 'missing'}, this program needs {migrate.HEAD};"
            " run `yaffle db migrate`, or install the Yaffle that made it"
        )
    pending = parked = oldest_us = None
    if inspect(conn).has_table("outbox"):
        pending = _count(conn, outbox.OutboxState.PENDING)
        parked = _count(conn, outbox.OutboxState.PARKED)
        oldest_us = outbox.oldest_pending_us(conn)
    if parked:
        problems.append(f"{parked} notifications were given up on; see `yaffle outbox`")
    return Facts(
        path=path,
        size_bytes=_size(path),
        schema=schema,
        expected_schema=migrate.HEAD,
        outbox_pending=pending,
        outbox_parked=parked,
        outbox_oldest_s=None if oldest_us is None else max(0, now_us - oldest_us) / 1_000_000,
        problems=tuple(problems),
    )


def _count(conn: Connection, state: outbox.OutboxState) -> int:
    return conn.execute(
        select(func.count()).select_from(outbox_table).where(outbox_table.c.state == state)
    ).scalar_one()


def _size(path: Path) -> int:
    files = (path, path.with_name(path.name + "-wal"))
    return sum(file.stat().st_size for file in files if file.exists())
