"""What one turn at a time costs: units of work a second by 1, 2 and 4 processes, with turns and without.

    python bench/turns.py [--seconds 4] [--database URL ...]

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
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog
from _python import ROOT, described, system_python
from sqlalchemy import Connection, bindparam, insert, select, update

from yaffle.engine.clock import SystemClock
from yaffle.store import dialects
from yaffle.store.database import open_store, prepare_server
from yaffle.store.tables import budgets

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


def prepare(url: str) -> None:
    """Make the tables and the rows."""
    prepare_server(url, clock=SystemClock())

    async def fill() -> None:
        async with open_store(url, clock=SystemClock()) as store:
            rows = [
                {"scope": "bench", "key": f"{p}-{n}{end}", "tokens": 1.0, "updated_us": 1}
                for p in range(max(PROCESSES)) for n in range(UNDER_WAY) for end in ("", "-b")
            ]  # fmt: skip
            await store.write(lambda conn: conn.execute(insert(budgets), rows) and None)

    asyncio.run(fill())


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
    with servers() as urls:
        measure(urls, asked.seconds)


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
