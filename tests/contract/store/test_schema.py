"""The schema: migrations and tables agree, upgrades are copied first, strangers are refused."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import insert
from sqlalchemy.exc import IntegrityError, OperationalError
from tests.contract.store.support import WallClock, keys, opened, put, url
from tests.disks import fill, small_disk

from yaffle.errors import ConfigError, StoreUnavailable
from yaffle.store import dialects, doctor, migrate, tables
from yaffle.store.database import open_store

REPOSITORY = Path(__file__).parents[3]

AFTER = f"{int(migrate.HEAD) + 1:04}"
SECOND = """
from alembic import op
import sqlalchemy as sa
revision, down_revision = "{after}", "{head}"
def upgrade():
    op.add_column("counters", sa.Column("extra", sa.Integer(), nullable=True))
    {more}
"""


def make(path: Path) -> None:
    async def scenario() -> None:
        async with open_store(url(path), clock=WallClock()) as store:
            await store.write(put("kept"))

    asyncio.run(scenario())


def query(path: Path, sql: str) -> list[tuple]:
    raw = sqlite3.connect(path, isolation_level=None)
    try:
        return raw.execute(sql).fetchall()
    finally:
        raw.close()


def upgrade(path: Path, migrations: Path, backup_dir: Path | None = None) -> None:
    engine, place = opened(url(path))
    try:
        migrate.upgrade(engine, place, backup_dir=backup_dir, now_us=7, migrations=migrations)
    finally:
        engine.dispose()


@pytest.fixture
def later(tmp_path):
    """The migrations of a later version; `{more}` is still to be filled in."""

    def build(more: str = "") -> Path:
        folder = tmp_path / "later%20migrations"
        shutil.copytree(migrate.MIGRATIONS, folder)
        text = SECOND.format(more=more, head=migrate.HEAD, after=AFTER)
        (folder / "versions" / f"v{AFTER}.py").write_text(text)
        return folder

    return build


@pytest.mark.parametrize("where", ["file", "memory"])
def test_migrations_build_exactly_the_tables(tmp_path, where):
    engine, place = opened(url(tmp_path / "y.db") if where == "file" else "sqlite://")
    migrate.upgrade(engine, place, backup_dir=None, now_us=1)
    with engine.connect() as conn, conn.begin():
        context = MigrationContext.configure(conn, opts={"compare_type": True})
        assert compare_metadata(context, tables.metadata) == []
        assert migrate.version(conn) == migrate.HEAD
    engine.dispose()


def test_the_head_is_the_newest_migration():
    assert ScriptDirectory.from_config(migrate.config()).get_heads() == [migrate.HEAD]


def test_opening_again_changes_nothing_and_copies_nothing(tmp_path):
    for _ in range(2):
        store = open_store(url(tmp_path / "y.db"), clock=WallClock())
        asyncio.run(store.close())
    assert {path.name for path in tmp_path.iterdir()} == {"y.db", "y.db.lock"}


def test_a_newer_schema_is_refused(tmp_path):
    make(tmp_path / "y.db")
    query(tmp_path / "y.db", "UPDATE alembic_version SET version_num = '9999'")
    query(tmp_path / "y.db", "UPDATE counters SET value = 9999 WHERE name = 'oldest_program'")
    for with_engine_lock in (True, False):
        with pytest.raises(ConfigError, match="'9999' is newer"):
            open_store(url(tmp_path / "y.db"), clock=WallClock(), with_engine_lock=with_engine_lock)
    assert query(tmp_path / "y.db", "SELECT version_num FROM alembic_version") == [("9999",)]


def test_somebody_elses_database_is_refused(tmp_path):
    query(tmp_path / "y.db", "CREATE TABLE theirs (id INTEGER)")
    with pytest.raises(ConfigError, match="not Yaffle's"):
        open_store(url(tmp_path / "y.db"), clock=WallClock())


def test_a_reader_does_not_upgrade(tmp_path):
    query(tmp_path / "y.db", "VACUUM")
    with pytest.raises(ConfigError, match="yaffle db migrate"):
        open_store(url(tmp_path / "y.db"), clock=WallClock(), with_engine_lock=False)


@pytest.mark.parametrize("elsewhere", [True, False])
def test_an_upgrade_leaves_a_copy_of_what_was(tmp_path, later, elsewhere):
    path, folder = tmp_path / "y.db", tmp_path / "copies" if elsewhere else None
    make(path)
    upgrade(path, later(), folder)
    copy = (folder or tmp_path) / f"y.db.backup-{migrate.HEAD}-7"
    assert copy.stat().st_mode & 0o777 == 0o600
    assert query(path, "SELECT version_num FROM alembic_version") == [(AFTER,)]
    assert query(path, "SELECT key FROM budgets") == [("kept",)]
    assert query(copy, "SELECT version_num FROM alembic_version") == [(migrate.HEAD,)]
    assert query(copy, "SELECT key FROM budgets") == [("kept",)]


def test_an_upgrade_that_fails_half_way_changes_nothing(tmp_path, later):
    make(tmp_path / "y.db")
    with pytest.raises(OperationalError, match="no such table"):
        upgrade(tmp_path / "y.db", later("op.execute('DELETE FROM nowhere')"))
    columns = [row[1] for row in query(tmp_path / "y.db", "PRAGMA table_info(counters)")]
    assert columns == ["name", "value"]
    make_again = open_store(url(tmp_path / "y.db"), clock=WallClock())
    assert asyncio.run(make_again.read(keys)) == ["kept"]
    asyncio.run(make_again.close())


def test_no_room_for_the_copy_means_no_upgrade(tmp_path, later):
    make(tmp_path / "y.db")
    with pytest.raises(StoreUnavailable, match="copy"):
        upgrade(tmp_path / "y.db", later(), Path("/proc/self/copies"))
    assert query(tmp_path / "y.db", "SELECT version_num FROM alembic_version") == [(migrate.HEAD,)]


def test_a_copy_for_which_there_is_no_room_leaves_nothing_that_looks_like_one(tmp_path, later):
    make(tmp_path / "y.db")
    with small_disk(tmp_path / "small", "64k") as folder:
        fill(folder)
        with pytest.raises(StoreUnavailable, match="make room there"):
            upgrade(tmp_path / "y.db", later(), folder)
        assert [path.name for path in folder.iterdir()] == ["fill"]
    assert query(tmp_path / "y.db", "SELECT version_num FROM alembic_version") == [(migrate.HEAD,)]


def test_the_wheel_brings_its_migrations_along(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=REPOSITORY,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    program = (
        "import asyncio, sys, yaffle.store.migrate as m\n"
        "from yaffle.store.database import open_store\n"
        "from tests.contract.store.support import WallClock\n"
        "assert str(m.MIGRATIONS).startswith(sys.argv[1]), m.MIGRATIONS\n"
        "asyncio.run(open_store(sys.argv[2], clock=WallClock()).close())\n"
    )
    site = tmp_path / "site"
    subprocess.run(
        [sys.executable, "-c", program, str(site), url(tmp_path / "y.db")],
        env=os.environ | {"PYTHONPATH": f"{site}:{REPOSITORY}"},
        cwd=tmp_path,
        check=True,
    )
    assert query(tmp_path / "y.db", "SELECT version_num FROM alembic_version") == [(migrate.HEAD,)]


def test_a_node_has_one_active_action_at_most(tmp_path):
    def act(name: str, lock_key: str | None):
        row = {"id": name, "action": "NODE_RECOVER", "status": "READY", "lock_key": lock_key}
        return lambda conn: conn.execute(insert(tables.actions).values(**row, created_us=1))

    async def scenario() -> None:
        async with open_store("sqlite://", clock=WallClock(), runner="inline") as store:
            await store.write(act("a1", "n1"))
            with pytest.raises(IntegrityError):
                await store.write(act("a2", "n1"))
            for name in ("a3", "a4"):
                await store.write(act(name, None))

    asyncio.run(scenario())


def test_the_doctor_reads_beside_a_running_engine_and_counts_what_waits(tmp_path):
    path = tmp_path / "y.db"

    async def scenario() -> doctor.Facts:
        async with open_store(url(path), clock=WallClock()) as store:
            await store.write(put("a", size=10))
            return doctor.check(url(path), clock=WallClock())

    facts = asyncio.run(scenario())
    assert (facts.problems, facts.schema, facts.outbox_pending) == ((), migrate.HEAD, 1)
    assert facts.size_bytes > 100_000
    assert facts.outbox_oldest_s is not None
    assert facts.outbox_oldest_s > 1e9


def test_the_doctor_says_what_is_wrong_with_any_file(tmp_path):
    path = tmp_path / "y.db"
    with pytest.raises(ConfigError, match="no such file"):
        doctor.check(url(path), clock=WallClock())
    path.write_bytes(b"not a database " * 300)
    facts = doctor.check(url(path), clock=WallClock())
    assert any("not a database" in problem for problem in facts.problems)
    assert facts.outbox_pending is None


def test_a_database_of_the_first_schema_keeps_its_rows_and_gets_projects(tmp_path):
    path = tmp_path / "y.db"
    engine, _ = opened(url(path))
    with engine.execution_options(**{dialects.WRITE: True}).begin() as conn:
        command.upgrade(migrate.config(conn), "0001")
    engine.dispose()
    with sqlite3.connect(path) as raw:
        raw.execute(
            "INSERT INTO profiles (id, name, type, spec, metadata, project, user, domain, created_us)"
            " VALUES ('p', 'web', 't-1.0', '{}', '{}', '', 'eve', '', 5)"
        )
        raw.execute(
            'INSERT INTO nodes (id, name, profile_id, "index", role, physical_id, status,'
            " status_reason, health, health_reason, gray, backend_status, attributes, metadata, data,"
            " tainted, mark_by, attempts, version, project, user, domain, created_us)"
            " VALUES ('n', 'web-1', 'p', 1, '', 'x', 'ACTIVE', '', 'healthy', '', 0, '', '{}', '{}',"
            " '{}', 0, '', 0, 1, '', 'eve', '', 5)"
        )
    raw.close()
    upgrade(path, migrate.MIGRATIONS)
    assert query(path, "SELECT project, given FROM profiles") == [("default", None)]
    assert query(path, "SELECT project, made_us FROM nodes") == [("default", 5)]
