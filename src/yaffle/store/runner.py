"""Runs units of work on the database: one writer that commits in groups, a few readers.

Invariant: a caller hears of success only after the COMMIT that holds its work returned. Jobs of one
group are isolated by savepoints; if the transaction itself is lost, the whole group is told so.
Every group takes its turn first: one writer at a time, of all processes (`store.commit_sequence`).
"""

from __future__ import annotations

import contextlib
import queue
import threading
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from yaffle.errors import StoreUnavailable
from yaffle.store import commit_sequence, dialects, rollback_detection

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

T = TypeVar("T")

QUEUE_LENGTH: Final = 10_000
GROUP_MAX: Final = 200
CLOSE_S: Final = 15.0
TRIES: Final = 4
"""How often a group is run before it is lost to others who were first."""
READ_TRIES: Final = 2
"""A server that was restarted has closed the connections we kept, and a migration that runs
meanwhile changes tables under a snapshot."""

_SAVEPOINT: Final = "SAVEPOINT job"
_UNDO: Final = "ROLLBACK TO SAVEPOINT job"
_KEEP: Final = "RELEASE SAVEPOINT job"

_WRITER_ENDED: Final = (
    "its writer has ended; if Yaffle is not stopping, see the log, and restart it"
)


class _Dropped(StoreUnavailable):
    """The database ended the transaction without a word: nothing was done."""


class Job(Generic[T]):
    """A unit of work and the future that its caller waits for."""

    def __init__(
        self, work: Callable[[Connection], T], *, late: Callable[[], bool] | None = None
    ) -> None:
        self.work = work
        self.late = late
        """Whether the caller has given up; a read is then stopped, so that it frees its reader."""
        self.future: Future[T] = Future()
        self._outcome: tuple[T] | BaseException | None = None

    def start(self) -> bool:
        """Return False if the caller is gone; from here on it can no longer be dropped."""
        return self.future.set_running_or_notify_cancel()

    def run_in_savepoint(self, conn: Connection) -> BaseException | None:
        """Do the work so that its failure undoes only itself; return the failure."""
        try:
            # Not `begin_nested`, which compiles its statements each time: a fifth of a job's CPU.
            conn.exec_driver_sql(_SAVEPOINT)
            try:
                self._outcome = (self.work(conn),)
            except BaseException:
                if not conn.invalidated:
                    conn.exec_driver_sql(_UNDO)
                raise
            conn.exec_driver_sql(_KEEP)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the caller's to see
            self._outcome = error
            return error
        return None

    def replace_failure(self, error: BaseException) -> None:
        """Have the caller told this instead of what the work raised."""
        error.__cause__ = self._outcome if isinstance(self._outcome, BaseException) else None
        self._outcome = error

    def settle(self) -> None:
        """Tell the caller, after the commit."""
        match self._outcome:
            case (result,):
                self.future.set_result(result)
            case BaseException() as error:
                self.future.set_exception(error)
            case None:
                self.future.set_exception(StoreUnavailable("the database did not get to it"))

    def fail(self, error: BaseException) -> None:
        """Tell the caller that the transaction is lost."""
        self.future.set_exception(error)


AnyJob = Job[object]


class Runner(Protocol):
    """Carries jobs to the database; each job's future is resolved exactly once."""

    def write(self, job: Job[T]) -> None:
        """Queue it; raise StoreUnavailable if the queue is full or closed."""
        ...

    def read(self, job: Job[T]) -> None:
        """Queue it; raise StoreUnavailable if the queue is full or closed."""
        ...

    def close(self) -> None:
        """Finish what is queued, then let go of every connection; bounded; blocks."""
        ...


class Work:
    """The two ways to run jobs on an engine, shared by both runners."""

    def __init__(
        self,
        engine: Engine,
        *,
        where: str,
        guard: Callable[[], None],
        turn: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        """`turn`: waits until other processes let us write, where the database itself is not fair."""
        self._readers = engine
        self._writers = engine.execution_options(**{dialects.WRITE: True})
        self._where = where
        self._guard = guard
        self._wait_for_turn = turn
        self._turn = 0
        """The highest turn that we know to be committed."""
        self._process = uuid.uuid4().hex

    def write(self, jobs: Callable[[], Iterable[Job[T]]]) -> int:
        """Run `jobs()` in one transaction and settle them; return how many were committed.

        `jobs` is called when it is our turn, so that whatever arrives while we wait for it joins
        the group.
        """
        started: list[Job[T]] = []
        for tries_left in reversed(range(TRIES)):
            try:
                with self._wait_for_turn(), self._writers.connect() as conn:
                    self._write_group(conn, jobs, started)
                break
            except (*dialects.ERRORS, StoreUnavailable) as error:
                if tries_left and self._worth_another(error, started):
                    continue
                if not started:
                    # Whoever waited for a lock that did not come is told now; it can ask again.
                    started.extend(job for job in jobs() if job.start())
                self._fail_all(started, error)
                return 0
            except BaseException as error:
                # Our bug: the thread dies loudly, but first nobody is left waiting.
                self._fail_all(started, error)
                raise
        for job in started:
            job.settle()
        return len(started)

    def _worth_another(self, error: BaseException, started: Sequence[Job[T]]) -> bool:
        """Whether nothing was done and another attempt may do it: a server was restarted meanwhile."""
        if isinstance(error, _Dropped) or dialects.again(error):
            return True
        return not started and dialects.lost_connection(error)

    def _write_group(
        self, conn: Connection, jobs: Callable[[], Iterable[Job[T]]], started: list[Job[T]]
    ) -> None:
        try:
            with conn.begin():
                turn = commit_sequence.take_turn(conn)
                known = commit_sequence.keep_place(conn, self._process, last=self._turn, turn=turn)
                if known is None:
                    self._run_all(conn, jobs, started)
                else:
                    rollback_detection.record(conn, had=self._turn, known=known)
                    turn = max(turn, self._turn + 1)
                    commit_sequence.retake_place(conn, self._process, turn)
                self._guard()
        except dialects.ERRORS as error:
            if not dialects.may_reuse(error):
                conn.invalidate()
            raise
        self._turn = turn
        if known is not None:
            raise StoreUnavailable(
                f"database {self._where}: it went back to an older state; a global stop is set:"
                " look at `yaffle status`"
            )

    def _run_all(
        self, conn: Connection, jobs: Callable[[], Iterable[Job[T]]], started: list[Job[T]]
    ) -> None:
        if started:  # once more, and nobody else joins
            for job in started:
                self._run(conn, job)
            return
        for job in jobs():
            if job.start():
                started.append(job)
                self._run(conn, job)

    def _run(self, conn: Connection, job: Job[T]) -> None:
        error = job.run_in_savepoint(conn)
        if error is not None and dialects.again(error):
            raise error
        if error is not None and (away := dialects.unavailable(error, self._where)):
            if not dialects.took_too_long(error):
                raise away from error
            job.replace_failure(away)  # its own statements are slow: the others go on
        if not dialects.kind_of(conn).in_transaction(conn):
            raise _Dropped(
                f"database {self._where}: it dropped the transaction by itself; it is tried again"
            )

    def _fail_all(self, jobs: Sequence[Job[T]], error: BaseException) -> None:
        for job in jobs:
            away = dialects.unavailable(error, self._where) or StoreUnavailable(str(error))
            away.__cause__ = error
            job.fail(away)

    def read(self, job: Job[T]) -> None:
        """Run one job on a consistent snapshot that refuses writes, and settle it."""
        if not job.start():
            return
        try:
            result = self._read(job)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is the caller's to see
            away = None
            if not dialects.writes_in_read(error):
                away = dialects.unavailable(error, self._where)
            job.fail(away or error)
        else:
            job.future.set_result(result)

    def _read(self, job: Job[T]) -> T:
        for tries_left in reversed(range(READ_TRIES)):
            try:
                with self._readers.connect() as conn, conn.begin():
                    kind = dialects.kind_of(conn)
                    kind.stop_when(conn, job.late)
                    try:
                        return job.work(conn)
                    finally:
                        kind.stop_when(conn, None)
            except dialects.ERRORS as error:
                again = dialects.lost_connection(error) or dialects.again(error)
                if not tries_left or not again:
                    raise
        raise AssertionError("the last attempt has returned or raised")


class InlineRunner:
    """Runs every job at once on the calling thread: the simulation's, deterministic."""

    def __init__(self, engine: Engine, *, where: str, guard: Callable[[], None]) -> None:
        self._engine = engine
        self._work = Work(engine, where=where, guard=guard)

    def write(self, job: Job[T]) -> None:
        """As `Runner.write`."""
        waiting = [job]
        self._work.write(lambda: [waiting.pop() for _ in waiting[:]])

    def read(self, job: Job[T]) -> None:
        """As `Runner.read`."""
        self._work.read(job)

    def close(self) -> None:
        """As `Runner.close`."""
        self._engine.dispose()


class ThreadRunner:
    """One writer thread with group commit, a few reader threads, two bounded queues."""

    def __init__(
        self,
        engine: Engine,
        *,
        where: str,
        guard: Callable[[], None],
        readers: int,
        now_s: Callable[[], float],
        group_s: float,
        turn: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._engine = engine
        self._now_s = now_s
        self._group_s = group_s
        self._work = Work(engine, where=where, guard=guard, turn=turn)
        self._where = where
        self._writes: queue.Queue[AnyJob | None] = queue.Queue(QUEUE_LENGTH)
        self._reads: queue.Queue[AnyJob | None] = queue.Queue(QUEUE_LENGTH)
        self._closed = False
        self._dead = False
        # Daemons: an interpreter that must end does not wait for a stuck disk.
        self._threads = [threading.Thread(target=self._write_loop, name="store-w", daemon=True)]
        self._threads += [
            threading.Thread(target=self._read_loop, name=f"store-r{number}", daemon=True)
            for number in range(readers)
        ]
        for thread in self._threads:
            thread.start()

    def write(self, job: Job[T]) -> None:
        """As `Runner.write`."""
        self._put(self._writes, job)

    def read(self, job: Job[T]) -> None:
        """As `Runner.read`."""
        self._put(self._reads, job)

    def _put(self, jobs: queue.Queue[AnyJob | None], job: Job[T]) -> None:
        if self._closed:
            raise StoreUnavailable(f"database {self._where}: it is closed")
        if self._dead and jobs is self._writes:
            raise StoreUnavailable(f"database {self._where}: {_WRITER_ENDED}")
        try:
            jobs.put_nowait(job)  # type: ignore[arg-type] # the queue only hands it back
        except queue.Full as error:
            raise StoreUnavailable(
                f"database {self._where}: {QUEUE_LENGTH} calls already wait for it; slow down"
            ) from error

    def _write_loop(self) -> None:
        try:
            while (first := self._writes.get()) is not None:
                self._work.write(partial(self._drain, [first]))
        finally:
            self._abandon()

    def _abandon(self) -> None:
        """A writer that ends, of a bug or not, must not leave callers waiting for it."""
        self._dead = True
        with contextlib.suppress(queue.Empty):
            while True:
                job = self._writes.get_nowait()
                if job is not None and job.start():
                    job.fail(StoreUnavailable(f"database {self._where}: {_WRITER_ENDED}"))

    def _drain(self, first: list[AnyJob]) -> Iterable[AnyJob]:
        end_s = self._now_s() + self._group_s
        yield from (first.pop() for _ in first[:])
        for _ in range(GROUP_MAX - 1):
            if self._now_s() > end_s:
                return
            try:
                job = self._writes.get_nowait()
            except queue.Empty:
                return
            if job is None:
                self._writes.put(None)  # for the loop, when this group is done
                return
            yield job

    def _read_loop(self) -> None:
        while (job := self._reads.get()) is not None:
            self._work.read(job)

    def close(self) -> None:
        """As `Runner.close`."""
        if self._closed:
            return
        self._closed = True
        for jobs, threads in ((self._writes, 1), (self._reads, len(self._threads) - 1)):
            for _ in range(threads):
                with contextlib.suppress(queue.Full):  # somebody is stuck; the join is bounded too
                    jobs.put(None, timeout=CLOSE_S)
        for thread in self._threads:
            thread.join(CLOSE_S)
        self._engine.dispose()
