"""The database away, locked, full, damaged, killed: bounded answers, and nothing acknowledged lost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sqlite3
import subprocess
from pathlib import Path

import pytest
from sqlalchemy import select, text
from tests.contract.store.support import WallClock, child, count, keys, put, url
from tests.given import Given

from yaffle.errors import ConfigError, Conflict, StoreUnavailable
from yaffle.store import doctor, tables
from yaffle.store.database import Store, open_store


def store_at(path: Path, **options) -> Store:
    return open_store(url(path), clock=WallClock(), **options)


def close(store: Store) -> None:
    asyncio.run(store.close())


def names(conn) -> set[str]:
    return set(conn.execute(select(tables.events.c.oid)).scalars())


def news_per_event(conn) -> set[int]:
    rows = conn.execute(
        text(
            "SELECT count(outbox.seq) FROM events LEFT JOIN outbox ON event_seq = events.seq"
            " GROUP BY events.seq"
        )
    )
    return set(rows.scalars())


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 3 MB."""
    folder = tmp_path / "small"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root may mount")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)],
        check=False,
        capture_output=True,
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount: {mounted.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_second_engine_on_the_same_file_is_refused_by_name(tmp_path):
    with child("hold", url(tmp_path / "y.db")) as holder:
        with pytest.raises(Conflict, match=rf"process {holder.pid} holds"):
            store_at(tmp_path / "y.db")
        # A reader needs no lock.
        close(store_at(tmp_path / "y.db", with_engine_lock=False))


def test_two_engines_in_one_process_are_two_engines(tmp_path):
    first = store_at(tmp_path / "y.db")
    with pytest.raises(Conflict, match=rf"process {os.getpid()} holds"):
        store_at(tmp_path / "y.db")
    close(first)
    close(store_at(tmp_path / "y.db"))


def test_the_lock_dies_with_its_holder(tmp_path):
    with child("hold", url(tmp_path / "y.db")) as holder:
        holder.send_signal(signal.SIGKILL)
        holder.wait(10)
        close(store_at(tmp_path / "y.db"))


def test_a_store_that_could_not_be_opened_gives_the_lock_back(tmp_path):
    (tmp_path / "y.db").write_bytes(b"no database at all, just text\n" * 200)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="not a database"):
            store_at(tmp_path / "y.db")


def test_a_locked_database_is_answered_in_time_and_works_again_afterwards(tmp_path):
    async def scenario() -> None:
        async with store_at(tmp_path / "y.db", busy_timeout_s=0.3) as store:
            await store.write(put("before"))
            with child("exclusive", tmp_path / "y.db") as other:
                with Given() as time_given:
                    results = await asyncio.gather(
                        *(store.write(put(f"during{n}")) for n in range(5)), return_exceptions=True
                    )
                    assert time_given.s < 3
                assert {type(r) for r in results} == {StoreUnavailable}
                assert "locked" in str(results[0])
                assert str(tmp_path / "y.db") in str(results[0])
                assert await store.read(keys) == ["before"]
                other.stdin.write("\n")
                other.stdin.flush()
                assert other.stdout.readline() == "released\n"
                await store.write(put("then"))
            assert await store.read(keys) == ["before", "then"]

    asyncio.run(scenario())


@pytest.mark.root
def test_a_full_disk_loses_nothing_and_the_store_works_again_once_there_is_room(small_disk):
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 700_000)

    async def scenario() -> None:
        written = []
        async with store_at(small_disk / "y.db") as store:

            async def fill() -> None:
                while len(written) < 200:
                    written.append(await store.write(put(f"{len(written):03}", size=20_000)))

            with pytest.raises(StoreUnavailable, match="disk is full"):
                await fill()
            assert len(written) > 5
            assert await store.read(keys) == written
            ballast.unlink()
            written.append(await store.write(put("zzz")))
            assert await store.read(keys) == written

    asyncio.run(scenario())
    assert doctor.check(url(small_disk / "y.db"), clock=WallClock()).problems == ()


def test_a_write_that_the_file_system_refuses_loses_nothing(tmp_path):
    with child("fill", url(tmp_path / "y.db")) as writer:
        lines = []
        while (line := writer.stdout.readline().strip()) != "end":
            assert line, f"the child ended early after {lines[-3:]}"
            lines.append(line)
    refused = [line for line in lines if line.startswith("refused")]
    acknowledged = {line.removeprefix("ack ") for line in lines if line.startswith("ack")}
    assert len(refused) == 1
    assert str(tmp_path / "y.db") in refused[0]
    assert "after" in acknowledged

    async def scenario() -> None:
        async with store_at(tmp_path / "y.db") as store:
            assert await store.read(names) >= acknowledged
            assert await store.read(news_per_event) == {2}

    asyncio.run(scenario())


def test_kill_9_amid_writes_never_loses_what_was_acknowledged(tmp_path):
    acknowledged = set()
    for round_, at_least in enumerate((40, 150, 333)):
        with child("write", url(tmp_path / f"{round_}.db")) as writer:
            acknowledged = {writer.stdout.readline().split()[1] for _ in range(at_least)}
            writer.send_signal(signal.SIGKILL)
            # What it had said before it died counts too.
            rest = writer.stdout.read().splitlines(keepends=True)
            acknowledged |= {line.split()[1] for line in rest if line.endswith("\n")}
            writer.wait(10)

        async def scenario(path=tmp_path / f"{round_}.db", acked=frozenset(acknowledged)) -> None:
            async with store_at(path) as store:
                assert await store.read(names) >= acked
                assert await store.read(news_per_event) == {2}

        asyncio.run(scenario())


def test_damaged_pages_are_said_to_be_damaged(tmp_path):
    path = tmp_path / "y.db"

    async def prepare() -> None:
        async with store_at(path) as store:
            await asyncio.gather(*(store.write(put(f"{n}", size=2000)) for n in range(300)))

    asyncio.run(prepare())
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(os.urandom(path.stat().st_size // 3))

    async def scenario() -> None:
        async with store_at(path) as store:
            with pytest.raises(StoreUnavailable, match="restore a backup"):
                await store.read(lambda conn: conn.execute(select(tables.events)).all())

    asyncio.run(scenario())
    facts = doctor.check(url(path), clock=WallClock())
    assert any(problem.startswith("damaged") for problem in facts.problems)


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_a_check_leaves_a_copy_as_it_is_to_the_last_byte(tmp_path, mode):
    path = tmp_path / "a copy.db"

    async def prepare() -> None:
        async with store_at(tmp_path / "y.db") as store:
            await store.write(put("a"))

    asyncio.run(prepare())
    (tmp_path / "y.db").rename(path)
    with contextlib.closing(sqlite3.connect(path)) as raw:
        raw.execute(f"PRAGMA journal_mode = {mode}")
    before, there = path.read_bytes(), sorted(tmp_path.iterdir())
    assert doctor.check(url(path), clock=WallClock()).problems == ()
    assert path.read_bytes() == before
    assert sorted(tmp_path.iterdir()) == there


def test_a_check_sees_what_an_engine_has_just_written(tmp_path):
    async def scenario() -> None:
        async with store_at(tmp_path / "y.db") as store:
            await store.write(put("a"))
            assert (tmp_path / "y.db-wal").stat().st_size > 0
            facts = doctor.check(url(tmp_path / "y.db"), clock=WallClock())
            assert (facts.problems, facts.schema) == ((), facts.expected_schema)
            await store.write(put("b"))
            assert await store.read(keys) == ["a", "b"]

    asyncio.run(scenario())


@pytest.mark.parametrize("how", ["moved", "replaced"])
def test_a_file_that_was_taken_away_takes_no_more_writes(tmp_path, how):
    path = tmp_path / "y.db"

    async def scenario() -> None:
        async with store_at(path) as store:
            await store.write(put("a"))
            path.rename(tmp_path / "gone.db")
            if how == "replaced":
                path.touch()
            with pytest.raises(StoreUnavailable, match=r"gone|replaced"):
                await store.write(put("b"))

    asyncio.run(scenario())


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    for folder in (Path("/proc/self"), tmp_path / "missing"):
        with pytest.raises(StoreUnavailable, match=str(folder)):
            store_at(folder / "y.db")


@pytest.mark.root
def test_a_read_only_folder_is_named(small_disk):
    close(store_at(small_disk / "y.db"))
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(StoreUnavailable, match=r"Read-only.*check that its folder"):
        store_at(small_disk / "y.db")


def test_a_reader_creates_nothing(tmp_path):
    with pytest.raises(ConfigError, match="no database at"):
        store_at(tmp_path / "y.db", with_engine_lock=False)
    assert list(tmp_path.iterdir()) == []


def test_the_file_is_for_its_owner_alone(tmp_path):
    store = store_at(tmp_path / "y.db")
    asyncio.run(store.write(put("a")))
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert set(modes) == {"y.db", "y.db-wal", "y.db-shm", "y.db.lock"}
    assert set(modes.values()) == {0o600}
    close(store)


def test_a_power_cut_is_provided_for(tmp_path):
    async def scenario() -> None:
        async with store_at(tmp_path / "y.db") as store:
            pragmas = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
            for use in (store.read, store.write):
                found = [
                    await use(
                        lambda conn, name=name: conn.exec_driver_sql(f"PRAGMA {name}").scalar()
                    )
                    for name in pragmas
                ]
                assert found == ["wal", 2, 1, 5000]
            assert await store.read(lambda conn: count(conn, "nodes")) == 0

    asyncio.run(scenario())
