"""Bring a database to this version's schema, after a copy; refuse one that is newer than we know."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect

from yaffle.errors import ConfigError, StoreUnavailable
from yaffle.store import dialects
from yaffle.store.tables import metadata

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

log = structlog.get_logger(__name__)

HEAD: Final = "0003"
"""The schema this program reads and writes: the newest file in `migrations/versions`."""

MIGRATIONS: Final = Path(__file__).with_name("migrations")


def version(conn: Connection) -> str | None:
    """Return the schema's version; None for a database without one."""
    return MigrationContext.configure(conn).get_current_revision()


def require_head(conn: Connection, where: object) -> None:
    """Raise ConfigError unless the schema is exactly this program's."""
    found = version(conn)
    if found == HEAD:
        return
    _refuse_unknown(found, where, ScriptDirectory.from_config(config()))
    raise ConfigError(
        f"database {where}: its schema is {found or 'missing'}, this program needs {HEAD};"
        " run `yaffle db migrate`, or start the engine, which does it"
    )


def upgrade(
    engine: Engine,
    path: Path | None,
    *,
    backup_dir: Path | None,
    now_us: int,
    migrations: Path = MIGRATIONS,
) -> None:
    """Bring the schema to the newest in one transaction; an older one is copied first.

    The copy lies in `backup_dir`, or beside the database. A failing migration changes nothing.
    """
    where = path or "in memory"
    with engine.connect() as conn, conn.begin():
        found = version(conn)
        strange = found is None and bool(inspect(conn).get_table_names())
    scripts = ScriptDirectory.from_config(config(migrations=migrations))
    head = scripts.get_current_head()
    if found == head:
        return
    _refuse_unknown(found, where, scripts)
    if strange:
        raise ConfigError(
            f"database {where}: it holds tables that are not Yaffle's; check database.url"
        )
    if found is not None and path is not None:
        _back_up(path, backup_dir or path.parent, f"{found}-{now_us}")
    with engine.execution_options(**{dialects.WRITE: True}).begin() as conn:
        if path is None:
            # The same tables, a test says so; a simulation opens thousands of these.
            metadata.create_all(conn)
            command.stamp(config(conn, migrations=migrations), "head")
        else:
            command.upgrade(config(conn, migrations=migrations), "head")
    log.info("database schema upgraded", database=str(where), before=found, after=head)


def config(conn: Connection | None = None, *, migrations: Path = MIGRATIONS) -> Config:
    """Return Alembic's view of the migrations inside this package, run on `conn`."""
    settings = Config()
    settings.set_main_option("script_location", str(migrations).replace("%", "%%"))
    settings.set_main_option("path_separator", "os")
    settings.attributes["connection"] = conn
    return settings


def _refuse_unknown(found: str | None, where: object, scripts: ScriptDirectory) -> None:
    known = {script.revision for script in scripts.walk_revisions()}
    if found is not None and found not in known:
        raise ConfigError(
            f"database {where}: its schema {found!r} is newer than this program, which knows up to"
            f" {HEAD}; install the newer Yaffle, or restore the copy made before the upgrade"
        )


def _back_up(path: Path, folder: Path, suffix: str) -> None:
    target = folder / f"{path.name}.backup-{suffix}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        target.touch(mode=0o600, exist_ok=False)
        dialects.copy_database(path, target)
    except (OSError, *dialects.ERRORS) as error:
        raise StoreUnavailable(
            f"database {path}: not upgraded, because its copy {target} could not be made: {error};"
            " make room there, or name another folder"
        ) from error
    log.info("database copied before upgrade", database=str(path), copy=str(target))
