"""Facts about a database for `yaffle doctor`: read without the engine's lock, changing nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import func, inspect, select

from yaffle.errors import ConfigError
from yaffle.store import dialects, migrate, outbox
from yaffle.store.tables import outbox as outbox_table

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from yaffle.ports.clock import Clock

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts about a database; `problems` says what is wrong, a sentence each, empty when nothing is."""

    database: str
    """The file, or the server's URL without its password."""
    size_bytes: int
    """Of the file and its write-ahead log; what a server says."""
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

    Raises ConfigError when there is no such file or kind of database; everything else is a problem
    in the answer.
    """
    place = dialects.place_of(url)
    if not place.shared and (place.path is None or not place.path.exists()):
        raise ConfigError(f"database.url = {url!r}: there is no such file; start Yaffle once")
    engine = dialects.make_engine(
        dialects.Opening(
            place=place,
            clock=clock,
            connections=1,
            busy_timeout_s=5.0,
            hold_s=60.0,
            read_only=True,
        )
    )
    problems: list[str] = []

    def ask(question: Callable[[Connection], T]) -> T | None:
        """Return the answer; None, and one more problem, if the database cannot give it."""
        try:
            with engine.connect() as conn, conn.begin():
                return question(conn)
        except dialects.ERRORS as error:
            problems.append(str(dialects.unavailable(error, place) or f"database {place}: {error}"))
            return None

    try:
        damages = ask(lambda conn: dialects.kind_of(conn).damages(conn))
        problems += [f"damaged: {line}" for line in damages or ()]
        size = ask(lambda conn: dialects.kind_of(conn).size_bytes(conn, place))
        schema = ask(migrate.version)
        waiting = ask(_outbox_facts) or _OutboxFacts(pending=None, parked=None, oldest_us=None)
    finally:
        engine.dispose()
    problems += _judge(schema, waiting)
    age_us = None if waiting.oldest_us is None else clock.now_us() - waiting.oldest_us
    return Facts(
        database=str(place),
        size_bytes=size or 0,
        schema=schema,
        expected_schema=migrate.HEAD,
        outbox_pending=waiting.pending,
        outbox_parked=waiting.parked,
        outbox_oldest_s=None if age_us is None else max(0, age_us) / 1_000_000,
        problems=tuple(dict.fromkeys(problems)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _OutboxFacts:
    pending: int | None
    parked: int | None
    oldest_us: int | None


def _outbox_facts(conn: Connection) -> _OutboxFacts | None:
    if not inspect(conn).has_table("outbox"):
        return None
    return _OutboxFacts(
        pending=_count(conn, outbox.OutboxState.PENDING),
        parked=_count(conn, outbox.OutboxState.PARKED),
        oldest_us=outbox.oldest_pending_us(conn),
    )


def _judge(schema: str | None, waiting: _OutboxFacts) -> Iterator[str]:
    if schema != migrate.HEAD:
        yield (
            f"the schema is {schema or 'missing'}, this program needs {migrate.HEAD};"
            " run `yaffle db migrate`, or install the Yaffle that made it"
        )
    if waiting.parked:
        yield f"{waiting.parked} notifications were given up on; see why, then deliver them again"


def _count(conn: Connection, state: outbox.OutboxState) -> int:
    return conn.execute(
        select(func.count()).select_from(outbox_table).where(outbox_table.c.state == state)
    ).scalar_one()
