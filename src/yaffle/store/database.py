"""The store as the rest of Yaffle sees it: `await store.write(unit)`, `await store.read(unit)`.

A unit of work is a plain function of a Connection. It cannot await, so no transaction is ever held
across a wait; it may be run again as a whole, so it touches nothing but the database.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Self, TypeVar

from yaffle.config.private import way_fault, writer_fault
from yaffle.errors import ConfigError, StoreUnavailable
from yaffle.store import dialects, migrate
from yaffle.store.lock import FileLock, lock_of
from yaffle.store.runner import InlineRunner, Job, Runner, ThreadRunner
from yaffle.store.turnstile import Turnstile

if TYPE_CHECKING:
    from types import TracebackType

    from sqlalchemy import Connection, Engine

    from yaffle.ports.clock import Clock
    from yaffle.store.dialects import DatabaseUrl

T = TypeVar("T")

TIMEOUT_S: Final = 10.0
BUSY_TIMEOUT_S: Final = 5.0
READERS: Final = 4
HOLD_S: Final = 2.5
MIGRATION_TRIES: Final = 3
"""Whoever looks while another migrates may be told to look again."""
GROUP_S: Final = 0.05
"""How long a group of writes may go on taking more in, while other processes wait for their turn."""


class Store:
    """An open database. Made by `open_store`; close it with `await store.close()`."""

    def __init__(
        self,
        *,
        place: DatabaseUrl,
        clock: Clock,
        engine: Engine,
        runner: Runner,
        lock: FileLock | None,
        turnstile: Turnstile | None = None,
    ) -> None:
        self.place = place
        self.path = place.path
        """SQLite's file; None for a server's database, and for one in memory."""
        self.clock = clock
        self.engine = engine
        """For tests and tools that count; work goes through `write` and `read`."""
        self._runner = runner
        self._lock = lock
        self._turnstile = turnstile

    async def write(self, work: Callable[[Connection], T], *, timeout_s: float = TIMEOUT_S) -> T:
        """Run `work` in a transaction of its own and return its result once that is on disk.

        What `work` raises undoes it alone and is raised here. StoreUnavailable says that the
        database could not do it; after a timeout its message says whether it may still happen.
        A cancelled caller's work is dropped if it has not begun, and finished otherwise.
        """
        return await self._wait(Job(work), self._runner.write, timeout_s)

    async def read(self, work: Callable[[Connection], T], *, timeout_s: float = TIMEOUT_S) -> T:
        """Run `work` on a consistent snapshot; if it writes it fails, and nothing of that is stored.

        A statement still running at the timeout is stopped.
        """
        end_s = self.clock.monotonic_s() + timeout_s
        job = Job(work, late=lambda: self.clock.monotonic_s() > end_s)
        return await self._wait(job, self._runner.read, timeout_s)

    async def _wait(self, job: Job[T], start: Callable[[Job[T]], None], timeout_s: float) -> T:
        # Inline jobs run at once: without this turn of the loop a simulation would never see
        # what real callers see, others acting between their call and its result.
        await asyncio.sleep(0)
        start(job)
        if job.future.done():
            await asyncio.sleep(0)
            return job.future.result()
        bound = asyncio.timeout(timeout_s)
        try:
            async with bound:
                return await asyncio.wrap_future(job.future)
        except TimeoutError as error:
            if not bound.expired():
                raise
            fate = "it was not begun" if job.future.cancelled() else "it may still happen"
            raise StoreUnavailable(
                f"database {self.place}: no answer within {timeout_s:g} s, {fate};"
                f" look at {'the server' if self.place.shared else 'the disk'}"
            ) from error

    async def close(self) -> None:
        """Finish what is queued, close the connections, give back the lock; idempotent."""
        if isinstance(self._runner, InlineRunner):
            self._runner.close()
        else:
            await asyncio.to_thread(self._runner.close)
        if self._turnstile is not None:
            self._turnstile.close()
        if self._lock is not None:
            self._lock.release()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def open_store(
    url: str,
    *,
    clock: Clock,
    backup_dir: Path | None = None,
    runner: Literal["thread", "inline"] = "thread",
    with_engine_lock: bool = True,
    upgrade: bool = True,
    busy_timeout_s: float = BUSY_TIMEOUT_S,
    hold_s: float = HOLD_S,
) -> Store:
    """Open the database at `url`; blocks.

    A file is also created and upgraded, if `with_engine_lock` and `upgrade`; without either it
    must exist and its schema be this program's. `sqlite://`, in memory, needs the inline runner. A
    server's database has to be there: `yaffle db migrate` (`prepare_server`) makes its tables. A
    writer that is silent for `hold_s` in the middle of a transaction is thrown out by a server: it
    is frozen.

    Raises Conflict while another engine holds the file, ConfigError for a URL or schema that this
    version cannot use, StoreUnavailable when the database cannot be opened.
    """
    place = dialects.place_of(url)
    if place.in_memory and runner != "inline":
        raise ConfigError(f"database.url = {url!r}: a database in memory serves tests only")
    lock = None if place.path is None else _claim(place.path, with_engine_lock=with_engine_lock)
    opening = dialects.Opening(
        place=place,
        clock=clock,
        connections=1 if runner == "inline" else READERS + 1,
        busy_timeout_s=busy_timeout_s,
        hold_s=hold_s,
    )
    try:
        engine = dialects.make_engine(opening)
        _settle_schema(
            engine, place, lock if upgrade else None, backup_dir=backup_dir, now_us=clock.now_us()
        )
    except BaseException:
        if lock is not None:
            lock.release()
        raise
    turnstile = None
    if place.path is not None and runner == "thread":
        turnstile = Turnstile(
            lock_of(place.path), wait_s_max=busy_timeout_s, now_s=clock.monotonic_s
        )
    return Store(
        place=place,
        clock=clock,
        engine=engine,
        runner=_start(runner, engine, place, clock, turnstile),
        lock=lock,
        turnstile=turnstile,
    )


def prepare_server(url: str, *, clock: Clock) -> DatabaseUrl:
    """Create or upgrade the tables of a server's database; engines of the schema before may run.

    Raises ConfigError while an engine lives that could not work with the result, and as
    `open_store` does.
    """
    place = dialects.place_of(url)
    engine = dialects.make_engine(
        dialects.Opening(
            place=place, clock=clock, connections=1, busy_timeout_s=BUSY_TIMEOUT_S, hold_s=HOLD_S
        )
    )
    try:
        for tries_left in reversed(range(MIGRATION_TRIES)):
            try:
                migrate.upgrade(engine, place, backup_dir=None, now_us=clock.now_us())
                break
            except dialects.ERRORS as error:
                if not tries_left or not dialects.again(error):
                    raise
    except BaseException as error:
        if lost := dialects.unavailable(error, place):
            raise lost from error
        raise
    finally:
        engine.dispose()
    return place


def _refuse_others(path: Path) -> None:
    """Raise ConfigError where somebody else could put a database of theirs in the place of ours."""
    if path.is_symlink():
        raise ConfigError(
            f"database.url: {path} is a symbolic link, so its -wal and .lock would lie beside the"
            f" link; name the file itself: sqlite:///{path.resolve()}"
        )
    for each, sticky in ((path.parent, True), (path, False)):
        with contextlib.suppress(FileNotFoundError):
            if fault := writer_fault(each, each.stat(), sticky=sticky):
                raise ConfigError(f"database.url: {each}: {fault}")
    if path.parent.is_dir() and (fault := way_fault(path.parent)):
        raise ConfigError(f"database.url: {path}: {fault}")


def _claim(path: Path, *, with_engine_lock: bool) -> FileLock | None:
    try:
        _refuse_others(path)
    except OSError as error:
        raise StoreUnavailable(f"database {path}: {error.strerror}") from error
    if not with_engine_lock:
        if not path.exists():
            raise ConfigError(f"database.url: there is no database at {path}; start Yaffle once")
        return None
    lock = FileLock(path).acquire()
    try:
        # 0600 before SQLite sees it: its WAL takes over the rights, and specs may hold secrets.
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        os.close(os.open(path, flags, 0o600))
    except OSError as error:
        lock.release()
        raise StoreUnavailable(
            f"database {path}: {error.strerror}: check the owner and rights of file and folder"
        ) from error
    return lock


def _settle_schema(
    engine: Engine,
    place: DatabaseUrl,
    lock: FileLock | None,
    *,
    backup_dir: Path | None,
    now_us: int,
) -> None:
    try:
        if place.in_memory or lock is not None:
            migrate.upgrade(engine, place, backup_dir=backup_dir, now_us=now_us)
        else:
            with engine.connect() as conn, conn.begin():
                migrate.require_usable(conn, place)
                dialects.kind_of(conn).check(conn)
    except BaseException as error:
        engine.dispose()
        if lost := dialects.unavailable(error, place):
            raise lost from error
        raise


def _start(
    kind: Literal["thread", "inline"],
    engine: Engine,
    place: DatabaseUrl,
    clock: Clock,
    turnstile: Turnstile | None,
) -> Runner:
    guard = _same_file(place.path)
    if kind == "inline":
        return InlineRunner(engine, where=str(place), guard=guard)
    return ThreadRunner(
        engine,
        where=str(place),
        guard=guard,
        readers=READERS,
        now_s=clock.monotonic_s,
        group_s=GROUP_S,
        turn=contextlib.nullcontext if turnstile is None else turnstile.turn,
    )


def _same_file(path: Path | None) -> Callable[[], None]:
    """Return a check that the file at `path` is still the one that is open.

    SQLite would go on writing to a file that was moved away or replaced, and every commit would be
    acknowledged and lost.
    """
    if path is None:
        return lambda: None
    opened = path.stat()

    def check() -> None:
        try:
            found = path.stat()
        except OSError as error:
            raise StoreUnavailable(
                f"database {path}: {error.strerror}: the file is gone; restore it and restart"
            ) from error
        if (found.st_dev, found.st_ino) != (opened.st_dev, opened.st_ino):
            raise StoreUnavailable(f"database {path}: the file was replaced; restart Yaffle")

    return check
