"""Kinds of databases: what `store/` needs beyond SQLAlchemy Core; one module per kind fulfils it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

    from yaffle.ports.clock import Clock
    from yaffle.store.dialects.url import DatabaseUrl

WRITE: Final = "yaffle_write"
"""Execution option of a connection that may write; without it the database refuses to."""


class Fault(Enum):
    """Whose fault an error is, hence what helps."""

    AWAY = "the database cannot be used now; waiting, or an administrator, mends it"
    AGAIN = "nothing was done, because somebody else was first; the same work may be run again"
    SLOW = (
        "a statement took too long and was stopped; what went before it in the transaction stands"
    )
    READ_ONLY = "a unit of work tried to write where only reading was promised: our bug"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Meaning of a database's error code. Codes without one are bugs of ours."""

    fault: Fault
    text: str = ""
    """What to do next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """Parameters with which connections are opened."""

    place: DatabaseUrl
    clock: Clock
    connections: int
    """At most so many at once; with one, that one is kept and shared."""
    busy_timeout_s: float
    """How long a writer waits for its turn."""
    hold_s: float
    """How long one that holds the turn may be silent before a server throws it out: it is frozen."""
    read_only: bool = False
    """A file is left as it is, to the last byte, wherever it lies."""


class Kind(Protocol):
    """One kind of database."""

    transactional_ddl: bool
    """Whether a migration that fails leaves nothing behind."""
    nulls_are_largest: bool
    """Whether nulls come last in a plain order; we want them first."""

    def make_engine(self, opening: Opening) -> Engine:
        """Return an engine that opens connections as asked, each ready for `begin`."""
        ...

    def check(self, conn: Connection) -> None:
        """Raise ConfigError if this database is set up so that it cannot serve."""
        ...

    def prepare_empty(self, conn: Connection) -> None:
        """Set up a database that holds nothing yet, before the first migration."""
        ...

    def lock_schema(self, conn: Connection) -> None:
        """Let one migration run at a time, until the transaction or connection ends."""
        ...

    def in_transaction(self, conn: Connection) -> bool:
        """Say whether the transaction is still there: some errors end it without a word."""
        ...

    def stop_when(self, conn: Connection, late: Callable[[], bool] | None) -> None:
        """Have statements on `conn` stopped once `late()` says so; None takes that back."""
        ...

    def advice(self, origin: BaseException) -> Advice | None:
        """Say what the driver's error means; None if it is not the database's own trouble."""
        ...

    def may_reuse(self, origin: BaseException) -> bool:
        """Say whether the connection is sound after the error; a new one is opened otherwise."""
        ...

    def damages(self, conn: Connection) -> tuple[str, ...]:
        """Return what the database finds wrong with itself; empty is good."""
        ...

    def size_bytes(self, conn: Connection, place: DatabaseUrl) -> int:
        """Return how much room it takes."""
        ...
