"""Units of work: grouped, isolated, bounded, acknowledged only after the commit."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from pathlib import Path

import pytest
from sqlalchemy import Connection, event, insert, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError
from tests.contract.store.support import HandClock, WallClock, count, keys, place, put, tell, url

from yaffle.errors import NotFound, StoreUnavailable
from yaffle.store import dialects, tables
from yaffle.store.database import READERS, Store, open_store


def store_at(path: Path, runner: str = "thread", **options) -> Store:
    return open_store(url(path), clock=WallClock(), runner=runner, **options)


@pytest.fixture(params=["thread", "inline", "memory", "postgresql", "mariadb"])
def store(request, tmp_path) -> Store:
    inline = request.param in {"inline", "memory"}
    runner = "inline" if inline else "thread"
    return open_store(place(request, tmp_path), clock=WallClock(), runner=runner)


def test_concurrent_writers_share_commits(tmp_path):
    async def scenario() -> int:
        async with store_at(tmp_path / "y.db") as store:
            commits = []
            event.listen(store.engine, "commit", lambda conn: commits.append(1))
            async with asyncio.TaskGroup() as tasks:
                jobs = [tasks.create_task(store.write(put(f"{n}"))) for n in range(300)]
            assert [job.result() for job in jobs] == [f"{n}" for n in range(300)]
            assert await store.read(lambda conn: len(keys(conn))) == 300
            return len(commits)

    assert asyncio.run(scenario()) < 60


def test_nobody_hears_of_success_before_the_commit(tmp_path):
    async def scenario() -> None:
        async with store_at(tmp_path / "y.db") as store:
            order = []
            event.listen(store.engine, "commit", lambda conn: order.append("commit"))
            await store.write(put("a"))
            order.append("heard")
            assert order == ["commit", "heard"]

    asyncio.run(scenario())


def test_a_failing_unit_undoes_only_itself(store):
    def half(conn):
        put("half")(conn)
        raise NotFound("no such cluster")

    async def scenario() -> None:
        async with store:
            results = await asyncio.gather(
                store.write(put("a")),
                store.write(half),
                store.write(put("b")),
                store.write(put("a")),
                store.write(put("c")),
                return_exceptions=True,
            )
            assert [type(r) for r in results] == [str, NotFound, str, IntegrityError, str]
            assert await store.read(keys) == ["a", "b", "c"]

    asyncio.run(scenario())


def test_an_event_and_its_news_are_written_together_or_not_at_all(store):
    def broken(conn):
        tell(conn, "n1", topics=2)
        raise RuntimeError("bug")

    async def scenario() -> None:
        async with store:
            with pytest.raises(RuntimeError, match="bug"):
                await store.write(broken)
            assert await store.read(lambda c: (count(c, "events"), count(c, "outbox"))) == (0, 0)
            first = await store.write(lambda c: tell(c, "n1", topics=2))
            assert await store.write(lambda c: tell(c, "n1", topics=0)) == first + 1
            assert await store.read(lambda c: (count(c, "events"), count(c, "outbox"))) == (2, 2)

    asyncio.run(scenario())


def touched_none(conn: Connection) -> None:
    conn.execute(
        update(tables.budgets).where(tables.budgets.c.key == "nobody's").values(tokens=0.0)
    )


def put_in_plain_sql(conn: Connection) -> None:
    row = insert(tables.budgets).values(scope="t", key="a", tokens=1.0, updated_us=1)
    plain = row.compile(conn.engine, compile_kwargs={"literal_binds": True})
    conn.exec_driver_sql(str(plain))


@pytest.mark.parametrize("work", [put("a"), touched_none, put_in_plain_sql])
def test_a_reader_is_refused_to_write(store, work):
    async def scenario() -> None:
        async with store:
            with pytest.raises(DBAPIError, match=r"(?i)read.?only"):
                await store.read(work)
            await store.write(put("b"))
            assert await store.read(keys) == ["b"]

    asyncio.run(scenario())


def test_wrong_sql_is_a_bug_and_not_an_absent_database(store):
    async def scenario() -> None:
        async with store:
            with pytest.raises(DBAPIError, match=r"no such table|does not exist|doesn't exist"):
                await store.write(lambda conn: conn.execute(text("SELECT * FROM nowhere")))

    asyncio.run(scenario())


def test_a_unit_that_ends_the_transaction_itself_breaks_nothing(store):
    async def scenario() -> None:
        async with store:
            with pytest.raises(StoreUnavailable, match="tried again"):
                await store.write(lambda conn: conn.exec_driver_sql("ROLLBACK"))
            assert await store.write(put("a")) == "a"

    asyncio.run(scenario())


def test_leases_are_told_by_the_clock_of_the_database():
    clock = HandClock(42)
    store = open_store("sqlite://", clock=clock, runner="inline")

    def now(conn):
        return conn.scalar(dialects.now_us().select())

    async def scenario() -> None:
        assert await store.read(now) == 42
        clock.at_us = 1_795_172_042_790_516
        assert await store.read(now) == 1_795_172_042_790_516
        await store.close()

    asyncio.run(scenario())


def test_what_has_begun_when_the_caller_gives_up_may_still_happen_and_the_rest_does_not(tmp_path):
    gate, entered = threading.Event(), threading.Event()

    def stuck(conn):
        entered.set()
        assert gate.wait(120)
        return put("begun")(conn)

    async def scenario() -> None:
        async with store_at(tmp_path / "y.db") as store:
            # So much that it has begun by then, however long it is held up.
            slow = asyncio.ensure_future(store.write(stuck, timeout_s=4.0))
            assert await asyncio.to_thread(entered.wait, 60)
            with pytest.raises(StoreUnavailable, match="was not begun"):
                await store.write(put("late"), timeout_s=0.1)
            cancelled = asyncio.ensure_future(store.write(put("cancelled")))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            # Reading does not wait for a stuck writer.
            assert await store.read(keys, timeout_s=60) == []
            with pytest.raises(StoreUnavailable, match="may still happen"):
                await slow
            gate.set()
            await store.write(put("next"))
            assert await store.read(keys) == ["begun", "next"]

    asyncio.run(scenario())


def test_endless_reads_are_stopped_and_free_their_readers(tmp_path):
    endless = text("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
                   " SELECT max(i) FROM n")  # fmt: skip

    async def scenario() -> None:
        async with store_at(tmp_path / "y.db") as store:
            reads = [
                store.read(lambda conn: conn.scalar(endless), timeout_s=0.2)
                for _ in range(READERS + 1)
            ]
            results = await asyncio.gather(*reads, return_exceptions=True)
            assert {type(r) for r in results} == {StoreUnavailable}
            assert await store.read(keys, timeout_s=60) == []

    asyncio.run(scenario())


def test_a_unit_that_reads_and_then_writes_owns_the_database_from_its_start(store):
    if store.path is None:
        pytest.skip("nobody else can open it")

    def work(conn):
        found = keys(conn)
        other = sqlite3.connect(store.path, timeout=0, isolation_level=None)
        with contextlib.closing(other), pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        return found

    async def scenario() -> None:
        async with store:
            assert await store.write(work) == []

    asyncio.run(scenario())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_writer_that_dies_of_a_bug_leaves_nobody_waiting(tmp_path):
    def bug(conn):
        if conn.get_execution_options().get(dialects.WRITE):
            raise ZeroDivisionError("our bug")

    async def scenario() -> None:
        async with store_at(tmp_path / "y.db") as store:
            event.listen(store.engine, "commit", bug)
            calls = [store.write(put(f"{n}"), timeout_s=60) for n in range(10)]
            async with asyncio.timeout(20):
                results = await asyncio.gather(*calls, return_exceptions=True)
            assert {type(r) for r in results} == {StoreUnavailable}
            with pytest.raises(StoreUnavailable, match="its writer has ended"):
                await store.write(put("later"))
            assert await store.read(keys) == []

    asyncio.run(scenario())


def test_a_caller_cancelled_before_its_unit_began_leaves_nothing(store):
    async def scenario() -> None:
        async with store:
            early = asyncio.ensure_future(store.write(put("early")))
            await asyncio.sleep(0)
            early.cancel()
            with pytest.raises(asyncio.CancelledError):
                await early
            await store.write(put("other"))
            assert await store.read(keys) == ["other"]

    asyncio.run(scenario())


def test_a_timeout_inside_a_unit_is_the_units_own(store):
    def work(conn):
        raise TimeoutError("mine")

    async def scenario() -> None:
        async with store:
            with pytest.raises(TimeoutError, match="mine"):
                await store.write(work)

    asyncio.run(scenario())


def test_closing_finishes_what_is_queued_and_refuses_the_rest(tmp_path):
    async def scenario() -> None:
        store = store_at(tmp_path / "y.db")
        jobs = [asyncio.ensure_future(store.write(put(f"{n:02}"))) for n in range(20)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await store.close()
        assert await asyncio.gather(*jobs) == [f"{n:02}" for n in range(20)]
        with pytest.raises(StoreUnavailable, match="closed"):
            await store.write(put("late"))
        await store.close()
        async with store_at(tmp_path / "y.db") as again:
            assert len(await again.read(keys)) == 20

    asyncio.run(scenario())


def test_inline_units_run_on_the_loop_in_the_same_order_every_time():
    def run() -> list[str]:
        trace: list[str] = []

        async def actor(store: Store, name: str) -> None:
            for number in range(5):

                def work(conn, key=f"{name}{number}"):
                    trace.append(f"{key}@{threading.current_thread().name}")
                    return put(key)(conn)

                trace.append(await store.write(work))

        async def scenario() -> None:
            async with open_store("sqlite://", clock=HandClock(), runner="inline") as store:
                threads = threading.active_count()
                await asyncio.gather(*(actor(store, name) for name in "abc"))
                assert threading.active_count() == threads

        asyncio.run(scenario())
        return trace

    first = run()
    assert first == run()
    assert {entry.split("@")[1] for entry in first if "@" in entry} == {"MainThread"}
    # Callers interleave, as they do with threads: nobody's five writes come in one go.
    assert first.index("b0") < first.index("a4")
