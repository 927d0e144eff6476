"""Passes over /proc are shared, but never one that began before it was asked for."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.contract.local_process.world import World

from yaffle.drivers.profiles.local_process.process_table import Passes
from yaffle.drivers.profiles.local_process.procfs import Procfs, ProcUnreadable, Stat, parse_stat
from yaffle.model.ids import OperationId
from yaffle.model.operations import Operation, ProgressState


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


class Staged(Procfs):
    """A /proc of a few processes with their environments; counts what is read of each."""

    def __init__(self, living: dict[int, tuple[int, bytes]]) -> None:
        super().__init__()
        self.living = living
        self.read: list[int] = []

    def pids(self) -> list[int]:
        return sorted(self.living)

    def stat(self, pid: int) -> Stat | None:
        start = self.living[pid][0]
        return parse_stat(f"{pid} (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {start} 0 0")

    def environment(self, stat: Stat) -> bytes | None:
        self.read.append(stat.pid)
        return self.living[stat.pid][1]


def test_a_stranger_is_asked_once_for_its_marks_and_whoever_may_be_starting_again() -> None:
    ours, stranger = b"A=1\0YAFFLE_NODE_ID=n\0", b"A=1\0"
    procfs = Staged({7: (1, stranger), 8: (1, ours), 9: (1, b"")})
    passes = Passes(procfs)
    assert passes.take().nodes == {8: "n"}
    assert procfs.read == [7, 8, 9]
    # In the middle of an exec a process shows no environment at all.
    procfs.living[9] = (1, ours)
    procfs.read.clear()
    assert passes.take().nodes == {8: "n", 9: "n"}
    assert procfs.read == [8, 9]
    # The number of the stranger is somebody else's by now.
    procfs.living[7] = (2, ours)
    assert passes.take().nodes == {7: "n", 8: "n", 9: "n"}


def test_an_operation_reads_the_list_of_processes_no_more_often_than_its_proof_needs(
    world: World,
) -> None:
    class Counting(Procfs):
        begun = 0

        def pids(self) -> list[int]:
            self.begun += 1
            return super().pids()

    procfs = Counting()
    worker = world.worker(procfs)
    target = world.target()
    for kind, needed in (("CREATE", 2), ("DELETE", 3)):
        procfs.begun = 0
        assert world.run(kind, target, worker=worker).state is ProgressState.DONE
        assert procfs.begun == needed, kind


def test_who_looks_does_not_stand_behind_those_who_act(world: World) -> None:
    """Every thread for operations waits for a pass over /proc; a living node needs none."""
    target = world.target()
    assert world.run("CREATE", target).state is ProgressState.DONE
    procfs = Slow()
    profile = world.profile(procfs)

    async def story() -> None:
        ops = [Operation(kind="CREATE", target=world.target(n), timeout_s=60) for n in range(1, 13)]
        async with asyncio.TaskGroup() as group:
            for number, op in enumerate(ops):
                ident = OperationId(f"op-{number}")
                group.create_task(profile.submit(op, operation_id=ident, deadline_s=60))
            assert await asyncio.to_thread(procfs.asked.acquire, timeout=60)
            (reading,) = await profile.read([target], deadline_s=15)
            for _ in range(100):
                procfs.go.release()
            assert reading.up

    asyncio.run(story())
    for number in range(13):
        world.run("DELETE", world.target(number))
