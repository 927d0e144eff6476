"""What one turn at a time costs: units of work a second by 1, 2 and 4 processes, with turns and without.

    python bench/turns.py [--seconds 4] [--database URL ...]

First on SQLite, where the API's process writes beside the engine's: the same two processes with the
turnstile and without, and how long one write waits beside a thousand of the other process's.

A unit reads a row and writes two, as a small step of a recovery does; each process has sixteen under
way. "Without" is the same work on the same driver at READ COMMITTED, one transaction each and no turn:
faster with every process, and wrong, since two may read before either writes. Without --database it
starts a private PostgreSQL and a private MariaDB, where they are installed.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import structlog
from _python import ROOT, described, system_python
from sqlalchemy import Connection, bindparam, insert, select, update

from yaffle.engine.runtime.clock import SystemClock
from yaffle.store import dialects
from yaffle.store.database import open_store, prepare_server
from yaffle.store.tables import budgets
from yaffle.store.turnstile import Turnstile

UNDER_WAY = 16
PROCESSES = (1, 2, 4)
_READ = select(budgets.c.tokens).where(budgets.c.key == bindparam("wanted"))
_WRITE = update(budgets).where(budgets.c.key == bindparam("wanted"))


def unit(conn: Connection, key: str) -> None:
    """Read a row, write it, write another."""
    conn.execute(_READ, {"wanted": key}).scalar_one()
    conn.execute(_WRITE, {"wanted": key, "tokens": 1.0})
    conn.execute(_WRITE, {"wanted": f"{key}-b", "updated_us": 2})


def with_turns(url: str, seconds: float, mine: list[str]) -> int:
    """Return how many units one process did through the store."""

    async def producer(store: object, key: str, end_s: float) -> int:
        done = 0
        while time.monotonic() < end_s:
            await store.write(lambda conn: unit(conn, key))  # type: ignore[attr-defined]
            done += 1
        return done

    async def run() -> int:
        async with open_store(url, clock=SystemClock()) as store:
            end_s = time.monotonic() + seconds
            return sum(await asyncio.gather(*(producer(store, k, end_s) for k in mine)))

    return asyncio.run(run())


def without(url: str, seconds: float, mine: list[str]) -> int:
    """Return how many units one process did in transactions of their own, four at a time."""
    engine = dialects.make_engine(
        dialects.Opening(
            place=dialects.place_of(url), clock=SystemClock(), connections=4, busy_timeout_s=10,
            hold_s=10,
        )
    ).execution_options(**{dialects.WRITE: True})  # fmt: skip
    done, end_s = [0] * 4, time.monotonic() + seconds

    def work(number: int) -> None:
        while time.monotonic() < end_s:
            try:
                with engine.begin() as conn:
                    unit(conn, mine[number])
            except dialects.ERRORS as error:
                if not dialects.again(error):  # without turns MariaDB sees deadlocks here
                    raise
            else:
                done[number] += 1

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    engine.dispose()
    return sum(done)


def _child(how: str, url: str, seconds: float, number: int, queue: object) -> None:
    work = with_turns if how == "with" else without
    keys = [f"{number}-{n}" for n in range(UNDER_WAY)]
    queue.put(work(url, seconds, keys))  # type: ignore[attr-defined]


def rate(how: str, url: str, seconds: float, processes: int) -> float:
    """Return units a second of all processes together."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    children = [
        context.Process(target=_child, args=(how, url, seconds, n, queue)) for n in range(processes)
    ]
    for child in children:
        child.start()
    total = sum(queue.get(timeout=seconds + 60) for _ in children)
    for child in children:
        child.join()
    return total / seconds


async def fill(url: str) -> None:
    """Make the rows."""
    async with open_store(url, clock=SystemClock()) as store:
        rows = [
            {"scope": "bench", "key": f"{p}-{n}{end}", "tokens": 1.0, "updated_us": 1}
            for p in range(max(PROCESSES)) for n in range(UNDER_WAY) for end in ("", "-b")
        ]  # fmt: skip
        await store.write(lambda conn: conn.execute(insert(budgets), rows) and None)


def prepare(url: str) -> None:
    """Make the tables and the rows."""
    prepare_server(url, clock=SystemClock())
    asyncio.run(fill(url))


@contextmanager
def servers() -> Iterator[list[str]]:
    """Start what is installed."""
    sys.path.insert(0, str(ROOT))
    from tests.servers import mariadb, postgresql  # noqa: PLC0415 - only where no URL is given

    found = []
    if postgresql.programs():
        found.append(postgresql.PostgreSQL())
    if mariadb.program():
        found.append(mariadb.MariaDB())
    try:
        for server in found:
            server.start()
        yield [server.create() for server in found]
    finally:
        for server in found:
            server.remove()


def main() -> None:
    """Print both sides for each database."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--database", action="append", help="an empty database; may be given again")
    asked = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    print(described())
    if asked.database:
        measure(asked.database, asked.seconds)
        return
    measure_file(asked.seconds)
    with servers() as urls:
        measure(urls, asked.seconds)


def _flood(url: str, seconds: float, turnstile: bool, queue: object) -> None:
    """Keep a thousand writes waiting."""

    async def run() -> int:
        async with open_store(url, clock=SystemClock(), with_engine_lock=False) as store:
            queue.put("ready")  # type: ignore[attr-defined]
            end_s, done = time.monotonic() + seconds, 0

            async def one() -> None:
                nonlocal done
                while time.monotonic() < end_s:
                    await store.write(lambda conn: unit(conn, "0-0"), timeout_s=60)
                    done += 1

            await asyncio.gather(*(one() for _ in range(1000)))
            return done

    _fair(turnstile)
    queue.put(asyncio.run(run()))  # type: ignore[attr-defined]


def _fair(turnstile: bool) -> None:
    if not turnstile:
        Turnstile.turn = lambda _self: nullcontext()  # type: ignore[method-assign, assignment]


def beside(url: str, seconds: float, *, turnstile: bool) -> tuple[int, list[float]]:
    """Return what the flood wrote, and how long each of our single writes beside it took (s)."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    flood = context.Process(target=_flood, args=(url, seconds, turnstile, queue))
    usual = Turnstile.turn
    _fair(turnstile)

    async def run() -> list[float]:
        waited = []
        async with open_store(url, clock=SystemClock()) as store:
            flood.start()
            await asyncio.to_thread(queue.get, timeout=60)
            end_s = time.monotonic() + seconds
            while time.monotonic() < end_s:
                began_s = time.monotonic()
                await store.write(lambda conn: unit(conn, "1-0"), timeout_s=60)
                waited.append(time.monotonic() - began_s)
                await asyncio.sleep(0.02)
        return sorted(waited)

    try:
        waited = asyncio.run(run())
    finally:
        Turnstile.turn = usual  # type: ignore[method-assign]
    done = queue.get(timeout=120)
    flood.join()
    return done, waited


def measure_file(seconds: float) -> None:
    """Print both sides for two processes on one SQLite file."""
    print("\nsqlite: one write beside a process that keeps a thousand waiting")
    print("  turnstile   its units/s   our writes   median ms   longest ms")
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/yaffle.db"
        asyncio.run(fill(url))
        for turnstile in (True, False):
            done, waited = beside(url, seconds, turnstile=turnstile)
            print(
                f"  {'with' if turnstile else 'without':9}   {done / seconds:11,.0f}"
                f"   {len(waited):10}   {waited[len(waited) // 2] * 1e3:9.1f}   {waited[-1] * 1e3:10.1f}"
            )


def measure(urls: list[str], seconds: float) -> None:
    """Print a line for each number of processes."""
    for url in urls:
        prepare(url)
        print(f"\n{dialects.place_of(url).kind}: units of work a second")
        print("  processes   with turns   without   ratio")
        for processes in PROCESSES:
            ours = rate("with", url, seconds, processes)
            bare = rate("without", url, seconds, processes)
            print(f"  {processes:9}   {ours:10,.0f}   {bare:7,.0f}   {ours / bare:5.2f}")


if __name__ == "__main__":
    system_python()
    sys.path.insert(0, str(Path(__file__).parent))
    main()
