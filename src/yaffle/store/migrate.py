"""Bring a database to this version's schema, after a copy; refuse one that is newer than we know."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, select

from yaffle.errors import ConfigError, StoreUnavailable
from yaffle.store import commit_sequence, dialects
from yaffle.store.tables import engines, metadata

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

    from yaffle.store.dialects import DatabaseUrl

log = structlog.get_logger(__name__)

HEAD: Final = "0012"
"""The schema this program reads and writes: the newest file in `migrations/versions`."""

MIGRATIONS: Final = Path(__file__).with_name("migrations")
ALIVE_US: Final = 60_000_000
_OURS: Final = {f"{number:04}" for number in range(1, int(HEAD) + 1)}


def version(conn: Connection) -> str | None:
    """Return the schema's version; None for a database without one."""
    return MigrationContext.configure(conn).get_current_revision()


def require_usable(conn: Connection, where: object) -> None:
    """Raise ConfigError unless this program can work with the schema that is there.

    A newer one will do if the migrations that made it say so (`oldest_program`): they only added.
    """
    found = version(conn)
    if found == HEAD:
        return
    if _is_newer(found) and _has_room_for_us(conn):
        log.info("database schema is newer, and compatible", database=str(where), schema=found)
        return
    _refuse_unknown(found, where)
    raise ConfigError(
        f"database {where}: its schema is {found or 'missing'}, this program needs {HEAD};"
        " run `yaffle db migrate`"
    )


def upgrade(
    engine: Engine,
    place: DatabaseUrl,
    *,
    backup_dir: Path | None,
    now_us: int,
    migrations: Path = MIGRATIONS,
) -> None:
    """Bring the schema to the newest; an older file is copied first.

    The copy lies in `backup_dir`, or beside the database. A failing migration changes nothing,
    except on MariaDB, where every DDL statement commits. Raises ConfigError while an engine lives
    that could not work with the result.
    """
    scripts = ScriptDirectory.from_config(config(migrations=migrations))
    head = scripts.get_current_head()
    with engine.connect() as conn, conn.begin():
        found = version(conn)
        if found == head:
            return
        if place.path is not None and _has_to_climb(conn, place):
            _back_up(place.path, backup_dir or place.path.parent, f"{found}-{now_us}")
    with engine.execution_options(**{dialects.WRITE: True}).begin() as conn:
        kind = dialects.kind_of(conn)
        kind.lock_schema(conn)
        if version(conn) == head:  # whoever held the lock before us has done it
            return
        if not _has_to_climb(conn, place):
            if version(conn) is not None:
                return
            kind.prepare_empty(conn)
        kind.check(conn)
        if place.in_memory:
            # The same tables, a test says so; a simulation opens thousands of these.
            metadata.create_all(conn)
            command.stamp(config(conn, migrations=migrations), "head")
        else:
            _climb(conn, scripts, place, migrations)
    log.info("database schema upgraded", database=str(place), before=found, after=head)


def _has_to_climb(conn: Connection, place: DatabaseUrl) -> bool:
    """Say whether there is an older schema of ours; raise ConfigError for what is not ours at all."""
    found = version(conn)
    if found is None:
        if inspect(conn).get_table_names():
            raise ConfigError(
                f"database {place}: it holds tables that are not Yaffle's; check database.url"
            )
        return False
    if _is_newer(found) and _has_room_for_us(conn):
        return False
    _refuse_unknown(found, place)
    return True


class _Living(NamedTuple):
    host: str
    pid: int
    schema: int


def _climb(
    conn: Connection, scripts: ScriptDirectory, place: DatabaseUrl, migrations: Path
) -> None:
    """Run what is missing, unless it would pull the ground from under an engine that lives."""
    found = version(conn)
    missing = list(scripts.iterate_revisions("head", found or "base"))
    needed = max((getattr(s.module, "OLDEST_PROGRAM", 0) for s in missing), default=0)
    if found is not None and place.shared:
        if old := [e for e in _living(conn) if e.schema < needed]:
            names = ", ".join(f"{e.host} (process {e.pid}, schema {e.schema:04})" for e in old)
            raise ConfigError(
                f"database {place}: the new schema needs programs of schema {needed:04} or newer,"
                f" and older engines are at work: {names}; upgrade them first"
            )
        commit_sequence.take_turn(conn)
    command.upgrade(config(conn, migrations=migrations), "head")
    commit_sequence.raise_to(conn, commit_sequence.OLDEST_PROGRAM, needed)


def old_engines(conn: Connection) -> bool:
    """Say whether an engine lives that knows less than this program's schema."""
    return any(engine.schema < int(HEAD) for engine in _living(conn))


def _living(conn: Connection) -> Sequence[_Living]:
    """Return the engines that have not stopped and were seen within a minute."""
    seen = conn.execute(select(dialects.now_us())).scalar_one() - ALIVE_US
    rows = conn.execute(
        select(engines.c.host, engines.c.pid, engines.c.schema).where(
            engines.c.stopped_us.is_(None), engines.c.seen_us > seen
        )
    )
    return [_Living(*row) for row in rows]


def _is_newer(found: str | None) -> bool:
    return found is not None and found.isdecimal() and int(found) > int(HEAD)


def _has_room_for_us(conn: Connection) -> bool:
    return 0 < commit_sequence.oldest_program(conn) <= int(HEAD)


def config(conn: Connection | None = None, *, migrations: Path = MIGRATIONS) -> Config:
    """Return Alembic's view of the migrations inside this package, run on `conn`."""
    settings = Config()
    settings.set_main_option("script_location", str(migrations).replace("%", "%%"))
    settings.set_main_option("path_separator", "os")
    settings.attributes["connection"] = conn
    return settings


def _refuse_unknown(found: str | None, where: object) -> None:
    """Raise ConfigError for a schema that none of our migrations leads to."""
    if found is None or found in _OURS:
        return
    raise ConfigError(
        f"database {where}: its schema {found!r} is newer than this program, which knows up to"
        f" {HEAD}; install the newer Yaffle, or restore the copy made before the upgrade"
    )


def _back_up(path: Path, folder: Path, suffix: str) -> None:
    target = folder / f"{path.name}.backup-{suffix}"
    # Whatever bears the name of a copy is one, and whole.
    begun = folder / f".{target.name}.new"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        begun.touch(mode=0o600, exist_ok=False)
        dialects.copy_database(path, begun)
        begun.rename(target)
    except (OSError, *dialects.ERRORS) as error:
        begun.unlink(missing_ok=True)
        raise StoreUnavailable(
            f"database {path}: not upgraded, because its copy {target} could not be made: {error};"
            " make room there, or name another folder"
        ) from error
    log.info("database copied before upgrade", database=str(path), copy=str(target))
