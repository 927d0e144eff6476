"""What only a shared database can do to us: others write, servers restart, hang, and go back in time."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from sqlalchemy import bindparam, insert, select, update
from tests.contract.store.support import WallClock, keys, put
from tests.given import Given
from tests.servers.fixtures import Server

from yaffle.errors import ConfigError, StoreUnavailable
from yaffle.model.incident import PauseKind
from yaffle.store import commit_sequence, leases, migrate, pauses, tables
from yaffle.store.database import Store, open_store, prepare_server

HOLD_S = 1.0
HOLDER = """
import asyncio, sys, time
from tests.contract.store.support import WallClock, put
from yaffle.store.database import open_store

def hold(conn):
    put("of the frozen one")(conn)
    print("holding", flush=True)
    time.sleep(60)

async def main():
    async with open_store(sys.argv[1], clock=WallClock(), hold_s=1.0) as store:
        await store.write(hold, timeout_s=120)

asyncio.run(main())
"""


def opened(url: str) -> Store:
    return open_store(url, clock=WallClock(), hold_s=20.0)


def test_a_server_keeps_its_temporary_tables_where_no_other_removes_them(mariadb):
    assert mariadb.sql("SELECT @@tmpdir") == [(str(mariadb.folder),)]


def test_writers_of_two_processes_lose_no_update(ready_url):
    """Each reads and then writes, as units of work do; without turns most of this would be lost."""

    def grow(conn):
        found = conn.execute(
            select(tables.budgets.c.tokens).where(tables.budgets.c.key == "sum")
        ).scalar_one()
        conn.execute(
            update(tables.budgets).where(tables.budgets.c.key == "sum").values(tokens=found + 1)
        )

    def work(url: str) -> None:
        async def scenario() -> None:
            async with opened(url) as store:
                for _ in range(60):
                    await store.write(grow)

        asyncio.run(scenario())

    async def first() -> None:
        async with opened(ready_url) as store:
            await store.write(put("sum"))

    asyncio.run(first())
    threads = [threading.Thread(target=work, args=(ready_url,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)

    async def last() -> float:
        async with opened(ready_url) as store:
            return await store.read(
                lambda c: c.execute(
                    select(tables.budgets.c.tokens).where(tables.budgets.c.key == "sum")
                ).scalar_one()
            )

    assert asyncio.run(last()) == 1 + 3 * 60


@contextlib.contextmanager
def holder(url: str) -> Iterator[subprocess.Popen[str]]:
    """A process that stands still in the middle of a transaction."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, url], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "holding\n"
            yield process
        finally:
            process.kill()


def test_a_frozen_writer_is_thrown_out_and_its_work_undone(ready_url):
    async def scenario() -> tuple[float, object]:
        async with opened(ready_url) as store:
            with Given() as time_given:
                await store.write(put("of the next one"))
                waited_s = time_given.s
            return waited_s, await store.read(keys)

    with holder(ready_url):
        waited_s, found = asyncio.run(scenario())
    assert found == ["of the next one"]
    # MariaDB looks at its idle sessions about once a second.
    assert waited_s < HOLD_S + 2.5


def test_a_reader_sees_one_moment_and_cannot_write(ready_url):
    async def scenario() -> None:
        async with opened(ready_url) as store:
            gate, inside = threading.Event(), threading.Event()

            def twice(conn):
                before = keys(conn)
                inside.set()
                gate.wait(60)
                return before, keys(conn)

            reading = asyncio.create_task(store.read(twice))
            await asyncio.to_thread(inside.wait, 60)
            await store.write(put("meanwhile"))
            gate.set()
            assert await reading == ([], [])
            with pytest.raises(Exception, match=r"(?i)read.only"):
                await store.read(put("never"))
            assert await store.read(keys) == ["meanwhile"]

    asyncio.run(scenario())


def test_the_clock_is_the_servers_and_goes_on_within_a_transaction(ready_url):
    def twice(conn):
        first = leases.now(conn)
        time.sleep(0.05)
        return first, leases.now(conn)

    async def scenario() -> tuple[int, int]:
        async with opened(ready_url) as store:
            return await store.write(twice)

    before_us = time.time_ns() // 1000
    first, second = asyncio.run(scenario())
    assert before_us - 1000 <= first <= second - 50_000
    assert second <= time.time_ns() // 1000 + 1000


def test_a_restarted_server_is_used_again_at_once(own_server: Server):
    url = own_server.create()
    prepare_server(url, clock=WallClock())

    async def scenario() -> None:
        async with opened(url) as store:
            await store.write(put("before"))
            assert await store.read(keys) == ["before"]
            await asyncio.to_thread(own_server.restart)
            # Nobody is told of connections that died while nobody used them.
            assert await store.read(keys) == ["before"]
            await store.write(put("after"))
            await asyncio.to_thread(own_server.kill)
            with pytest.raises(StoreUnavailable, match=r"tried again|cannot be reached"):
                await store.write(put("lost"))
            with pytest.raises(StoreUnavailable, match=r"tried again|cannot be reached"):
                await store.read(keys)
            await asyncio.to_thread(own_server.start)
            assert await store.read(keys) == ["after", "before"]

    asyncio.run(scenario())


def test_a_server_that_hangs_keeps_nobody_waiting(own_server: Server):
    url = own_server.create()
    prepare_server(url, clock=WallClock())

    async def scenario() -> None:
        async with opened(url) as store:
            await store.write(put("before"))
            own_server.freeze()
            try:
                with Given() as time_given:
                    with pytest.raises(StoreUnavailable, match="no answer within 1 s"):
                        await store.write(put("late"), timeout_s=1)
                    with pytest.raises(StoreUnavailable, match="no answer within 1 s"):
                        await store.read(keys, timeout_s=1)
                    assert time_given.s < 3
            finally:
                own_server.thaw()
            await store.write(put("after"), timeout_s=60)
            assert {"before", "after"} <= set(await store.read(keys))

    asyncio.run(scenario())


def go_back(conn, at: int) -> None:
    """Do to the turns what a fail-over to the state at turn `at` does."""
    conn.execute(
        update(tables.counters)
        .where(
            tables.counters.c.name.startswith(commit_sequence.TURN), tables.counters.c.value > at
        )
        .values(value=at)
    )


def test_a_database_that_went_back_is_stopped_and_every_hold_on_it_ends(ready_url):
    async def scenario() -> None:
        async with opened(ready_url) as store:
            for number in range(10):
                await store.write(put(f"{number}"))
            epoch = await store.write(
                lambda c: leases.register(c, "e-1", host="h", pid=1, alone=False)
            )
            await store.write(lambda c: go_back(c, 7))
            with pytest.raises(StoreUnavailable, match="went back"):
                await store.write(put("refused"))
            assert "refused" not in await store.read(keys)
            stops = await store.read(lambda c: pauses.in_force(c, time.time_ns() // 1000))
            assert [(p.kind, p.owner) for p in stops] == [(PauseKind.STOP, "yaffle")]
            assert "committed turn 12, and of its turns" in stops[0].reason
            assert not await store.write(lambda c: leases.renew(c, "e-1", epoch, lease_s=10))
            again = await store.write(
                lambda c: leases.register(c, "e-2", host="h", pid=1, alone=False)
            )
            assert again > epoch + 4, "an epoch of the lost turns is never given out twice"
            await store.write(lambda c: go_back(c, 9))
            with pytest.raises(StoreUnavailable, match="went back"):
                await store.write(put("refused"))
            assert len(await store.read(lambda c: pauses.in_force(c, time.time_ns() // 1000))) == 1

    asyncio.run(scenario())


def test_commits_that_are_lost_are_missed_even_if_others_write_first(ready_url):
    """A standby is a few turns behind, and a fleet has made those again before the one they were."""

    async def scenario() -> None:
        async with opened(ready_url) as other, opened(ready_url) as mine:
            await other.write(put("other"))
            await mine.write(put("before"))
            at = await mine.read(commit_sequence.turn)
            await mine.write(put("lost"))
            async with opened(ready_url) as server:
                await server.write(lambda c: go_back(c, at))
            await other.write(put("again"))
            await other.write(put("and again"))
            assert await mine.read(commit_sequence.turn) > at + 1
            with pytest.raises(StoreUnavailable, match="went back"):
                await mine.write(put("refused"))
            await mine.write(put("after"))
            await other.write(put("goes on"))
            stops = await mine.read(lambda c: pauses.in_force(c, time.time_ns() // 1000))
            assert [p.owner for p in stops] == ["yaffle"]

    asyncio.run(scenario())


def test_a_statement_that_takes_too_long_fails_its_own_unit_alone(ready_url):
    def sleeper(conn):
        # For this unit alone: another one that is held up for a moment must not fail as well.
        if "postgres" in ready_url:
            conn.exec_driver_sql("SET LOCAL statement_timeout = 300")
            conn.exec_driver_sql("SELECT pg_sleep(3)")
        # MariaDB's SLEEP may end early without an error; a statement that works does not.
        work = "SELECT COUNT(*) FROM seq_1_to_1000000000 JOIN seq_1_to_10"
        conn.exec_driver_sql(f"SET STATEMENT max_statement_time = 0.3 FOR {work}")

    async def scenario() -> None:
        async with opened(ready_url) as store:
            results = await asyncio.gather(
                store.write(put("a")), store.write(sleeper), store.write(put("b")),
                return_exceptions=True,
            )  # fmt: skip
            assert [type(r) for r in results] == [str, StoreUnavailable, str]
            assert await store.read(keys) == ["a", "b"]

    asyncio.run(scenario())


def test_an_empty_database_says_how_to_make_the_tables(server_url):
    with pytest.raises(ConfigError, match="yaffle db migrate"):
        opened(server_url)


def test_two_who_migrate_at_once_take_turns(server_url):
    faults = []

    def climb() -> None:
        try:
            prepare_server(server_url, clock=WallClock())
        except BaseException as error:  # noqa: BLE001 - shown below
            faults.append(error)

    threads = [threading.Thread(target=climb) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert faults == []
    asyncio.run(opened(server_url).close())


def test_a_newer_schema_that_only_added_is_worked_with(server_url):
    prepare_server(server_url, clock=WallClock())

    async def later(oldest: int) -> None:
        async with opened(server_url) as store:
            await store.write(
                lambda c: c.exec_driver_sql("UPDATE alembic_version SET version_num = '0099'")
            )
            await store.write(
                lambda c: c.execute(
                    update(tables.counters)
                    .where(tables.counters.c.name == commit_sequence.OLDEST_PROGRAM)
                    .values(value=oldest)
                )
            )

    asyncio.run(later(int(migrate.HEAD)))
    asyncio.run(opened(server_url).close())
    prepare_server(server_url, clock=WallClock())
    asyncio.run(later(99))
    with pytest.raises(ConfigError, match="'0099' is newer than this program"):
        opened(server_url)


def test_a_password_is_shown_nowhere(server_url):
    wrong = server_url.replace("@127.0.0.1", ":s3cret@127.0.0.1").replace("/yaffle_", "/nobody_")
    with pytest.raises(StoreUnavailable) as caught:
        opened(wrong)
    assert "s3cret" not in str(caught.value)


def test_names_that_differ_in_case_accents_or_blanks_are_different(ready_url):
    names = ["a", "A", "ä", "a "]

    async def scenario() -> list[str]:
        async with opened(ready_url) as store:
            for name in names:
                await store.write(
                    lambda c, name=name: c.execute(
                        insert(tables.budgets).values(scope="t", key=name, tokens=1, updated_us=1)
                    )
                )
            return list(await store.read(keys))

    assert sorted(asyncio.run(scenario())) == sorted(names)


def test_long_documents_and_exact_numbers_survive(ready_url):
    text = "ünï " * 50_000
    tokens = 16_777_217.123456789

    def work(conn):
        conn.execute(
            insert(tables.budgets).values(scope="t", key="k", tokens=tokens, updated_us=2**53 + 1)
        )
        conn.execute(
            insert(tables.pauses).values(
                id="p", kind="stop", scope="all", owner="x", reason=text, starts_us=1
            )
        )

    async def scenario() -> tuple[object, ...]:
        async with opened(ready_url) as store:
            await store.write(work)
            row = await store.read(
                lambda c: c.execute(
                    select(tables.budgets.c.tokens, tables.budgets.c.updated_us)
                ).one()
            )
            return (*row, await store.read(lambda c: c.scalar(select(tables.pauses.c.reason))))

    assert asyncio.run(scenario()) == (tokens, 2**53 + 1, text)


def test_what_a_backend_says_can_be_kept_whatever_it_is(ready_url):
    said = "a\0b" + "x" * 400

    async def scenario() -> list[str]:
        async with opened(ready_url) as store:
            await store.write(put(said))
            await store.write(lambda c: c.execute(_BY_KEY.values(tokens=7), {"wanted": said}))
            return list(await store.read(keys))

    [kept] = asyncio.run(scenario())
    assert kept == "a\ufffdb" + "x" * 251 + "…"


_BY_KEY = update(tables.budgets).where(tables.budgets.c.key == bindparam("wanted"))
