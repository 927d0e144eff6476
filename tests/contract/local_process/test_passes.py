"""Passes over /proc are shared, but never one that began before it was asked for."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from yaffle.drivers.profiles.local_process.census import Passes
from yaffle.drivers.profiles.local_process.procfs import Procfs, ProcUnreadable


class Slow(Procfs):
    """Counts passes and holds each until the test lets it go; the first may fail."""

    def __init__(self, *, fails: int = 0) -> None:
        super().__init__()
        self.fails = fails
        self.begun = 0
        self.asked = threading.Semaphore(0)
        self.go = threading.Semaphore(0)

    def pids(self) -> list[int]:
        self.begun += 1
        number = self.begun
        self.asked.release()
        assert self.go.acquire(timeout=60)
        if number <= self.fails:
            raise ProcUnreadable("not now")
        return []


def waiting(pool: ThreadPoolExecutor, passes: Passes, many: int) -> list:
    """Ask from as many threads, and return once each of them waits for somebody's pass."""
    before = len(passes._changed._waiters)  # type: ignore[attr-defined]
    found = [pool.submit(passes.take) for _ in range(many)]
    for _ in range(12_000):
        if len(passes._changed._waiters) >= before + many:  # type: ignore[attr-defined]
            return found
        threading.Event().wait(0.005)
    raise AssertionError("they do not wait")


def test_whoever_asks_during_a_pass_gets_the_next_one_and_shares_it() -> None:
    procfs = Slow()
    passes = Passes(procfs)
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(passes.take)
        assert procfs.asked.acquire(timeout=60)
        late = waiting(pool, passes, 6)
        procfs.go.release()
        old = first.result(timeout=60)
        assert procfs.asked.acquire(timeout=60)
        assert not any(one.done() for one in late), "a pass that began before they asked"
        procfs.go.release()
        shared = [one.result(timeout=60) for one in late]
    assert procfs.begun == 2
    assert all(one is shared[0] for one in shared)
    assert shared[0] is not old


def test_a_pass_that_failed_serves_nobody_else() -> None:
    procfs = Slow(fails=1)
    passes = Passes(procfs)
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(passes.take)
        assert procfs.asked.acquire(timeout=60)
        late = waiting(pool, passes, 2)
        for _ in range(3):
            procfs.go.release()
        with pytest.raises(ProcUnreadable):
            first.result(timeout=60)
        assert all(one.result(timeout=60).living == () for one in late)
