"""Database URLs: as the user wrote one, made exact, and what may be shown of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from yaffle.errors import ConfigError

if TYPE_CHECKING:
    from sqlalchemy import URL

Kind = Literal["sqlite", "postgresql", "mariadb"]

_DRIVERS: Final[dict[str, tuple[Kind, str]]] = {
    "sqlite": ("sqlite", "sqlite"),
    "sqlite+pysqlite": ("sqlite", "sqlite"),
    "postgres": ("postgresql", "postgresql+psycopg"),
    "postgresql": ("postgresql", "postgresql+psycopg"),
    "postgresql+psycopg": ("postgresql", "postgresql+psycopg"),
    "mariadb": ("mariadb", "mysql+pymysql"),
    "mariadb+pymysql": ("mariadb", "mysql+pymysql"),
    "mysql": ("mariadb", "mysql+pymysql"),
    "mysql+pymysql": ("mariadb", "mysql+pymysql"),
}
"""What people write → the kind of database, and the one driver we use for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseUrl:
    """One database."""

    kind: Kind
    url: URL
    path: Path | None = None
    """SQLite's file; None for a server, and for a database in memory."""

    @property
    def in_memory(self) -> bool:
        """Whether it ends with this process."""
        return self.kind == "sqlite" and self.path is None

    @property
    def shared(self) -> bool:
        """Whether several processes may work on it at once: a server's, not a file."""
        return self.kind != "sqlite"

    def __str__(self) -> str:
        """How messages name it; never the password."""
        if self.kind == "sqlite":
            return "in memory" if self.path is None else str(self.path)
        return self.url.set(drivername=self.kind, query={}).render_as_string(hide_password=True)


def place_of(text: str) -> DatabaseUrl:
    """Return the database that `text` names; raise ConfigError for a URL that names none."""
    try:
        url = make_url(text)
    except ArgumentError as error:
        raise ConfigError(
            "database.url is not a database URL: write sqlite:///PATH, with three slashes before"
            " a relative path and four before an absolute one, or postgresql://USER:PASSWORD@HOST/NAME"
            " or mariadb://USER:PASSWORD@HOST/NAME"
        ) from error
    if url.drivername not in _DRIVERS:
        raise ConfigError(
            f"database.url = {_shown(url)}: this database is not known; write sqlite:///PATH,"
            " postgresql://USER:PASSWORD@HOST/NAME or mariadb://USER:PASSWORD@HOST/NAME"
        )
    kind, driver = _DRIVERS[url.drivername]
    if kind == "sqlite":
        return _file(url)
    if not url.database:
        raise ConfigError(f"database.url = {_shown(url)}: it names no database; end it with /NAME")
    return DatabaseUrl(kind=kind, url=url.set(drivername=driver))


def _file(url: URL) -> DatabaseUrl:
    if url.query or url.host:
        raise ConfigError(
            f"database.url = {_shown(url)}: an SQLite file has neither options nor a host;"
            " write sqlite:///PATH, four slashes before an absolute path"
        )
    if url.database in {None, "", ":memory:"}:
        return DatabaseUrl(kind="sqlite", url=url)
    return DatabaseUrl(kind="sqlite", url=url, path=Path(url.database or "").absolute())


def _shown(url: URL) -> str:
    return repr(url.render_as_string(hide_password=True))
