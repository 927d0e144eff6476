"""Whoever drives an operation may die at any point; a successor finishes it, and nothing is doubled."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.contract.local_process.world import PYTHON, World, wait_for, with_suppressed_kill

from yaffle.model.ids import OperationId
from yaffle.model.operations import Operation, ProgressState, Target

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")

STEPS = frozenset(
    {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "fcntl.flock", "subprocess.Popen"}
)
"""Audit events (of the interpreter itself) before which the driving process is made to die; files
are opened for reading, and in /proc, without counting."""

COPY = (
    "import fcntl, os, sys, time\n"
    "diary = open(sys.argv[1], 'a')\n"
    "lock = open(sys.argv[1] + '.lock', 'w')\n"
    "try: fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
    "except OSError: os.write(diary.fileno(), b'DOUBLE\\n')\n"
    "os.write(diary.fileno(), b'start\\n')\n"
    "time.sleep(600)"
)
"""A node that writes down every start, and whether another copy was alive then."""


def diarist(world: World, tmp_path: Path, number: int) -> tuple[Target, Path]:
    diary = tmp_path / f"diary-{number}"
    command = [*PYTHON, COPY, str(diary)]
    return world.target(number, command=command, port="auto", stop_timeout=60), diary


def entries(diary: Path) -> list[str]:
    return diary.read_text().split() if diary.exists() else []


def drive(world: World, op: Operation, name: OperationId) -> None:
    worker = world.worker()
    progress = world.call(worker.submit, op, name)
    world.finish(op, name, progress, worker)


def die_before(step: int) -> None:
    """Make this process SIGKILL itself before its `step`-th step."""
    left = step

    def hook(event: str, args: tuple[object, ...]) -> None:
        nonlocal left
        writes = event != "open" or int(str(args[2])) & (os.O_WRONLY | os.O_RDWR)
        if event in STEPS and writes:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def in_child(work: Callable[[], None]) -> int:
    """Fork, work, and leave without any clean-up of ours."""
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return pid


def status_of(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def succeed(world: World, op: Operation, name: OperationId) -> None:
    """What a successor does: ask, and submit under the same id where there is no trace."""
    worker = world.worker()
    progress = world.call(worker.poll, op, name)
    progress = world.finish(op, name, progress, worker)
    if progress.state is ProgressState.ABSENT:
        progress = world.call(worker.submit, op, name)
        progress = world.finish(op, name, progress, worker)
    assert progress.state is ProgressState.DONE, progress


def check_after(world: World, kind: str, target: Target, diary: Path) -> None:
    starts = {"CREATE": 1, "REBOOT": 2, "REBUILD": 2, "DELETE": 1, "STOP": 1, "KILL": 1}[kind]
    wait_for(lambda: len(entries(diary)) >= starts)
    assert entries(diary) == ["start"] * starts
    living = world.carriers(target)
    assert len(living) == (1 if kind in ("CREATE", "REBOOT", "REBUILD") else 0)
    if kind == "DELETE":
        assert not world.folder(target).exists()


def settled(world: World, tmp_path: Path, kind: str, number: int) -> tuple[Target, Path]:
    """A node on which `kind` can be tried."""
    target, diary = diarist(world, tmp_path, number)
    if kind != "CREATE":
        assert world.run("CREATE", target).state is ProgressState.DONE
        wait_for(lambda: entries(diary))
    return target, diary


QUICK = ("CREATE", "DELETE", "KILL")


@pytest.mark.parametrize(
    ("kind", "first", "stride"),
    # What is not slow tries each fourth step of some; the slow ones try all others.
    [(kind, 2, 4) for kind in QUICK]
    + [
        pytest.param(kind, *steps, marks=pytest.mark.slow)
        for kind in QUICK
        for steps in ((1, 2), (4, 4))
    ]
    + [pytest.param(kind, 1, 1, marks=pytest.mark.slow) for kind in ("REBOOT", "REBUILD", "STOP")],
)
def test_killed_before_each_step_a_successor_finishes(
    world: World, tmp_path: Path, kind: str, first: int, stride: int
) -> None:
    step, crashes = first, 0
    while True:
        target, diary = settled(world, tmp_path, kind, step)
        op, name = Operation(kind=kind, target=target), OperationId(f"{world.tag}-op-{step}")

        def work(op: Operation = op, name: OperationId = name, step: int = step) -> None:
            die_before(step)
            drive(world, op, name)

        code = status_of(in_child(work))
        assert code in (0, -signal.SIGKILL)
        succeed(world, op, name)
        check_after(world, kind, target, diary)
        world.clean()
        if code == 0:
            break
        crashes += 1
        step += stride
    assert crashes > 5 // stride


@pytest.mark.parametrize("seed", range(2))
def test_killed_at_random_moments_a_successor_finishes(
    world: World, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    for number in range(6):
        kind = chance.choice(["CREATE", "REBOOT", "REBUILD", "DELETE"])
        target, diary = settled(world, tmp_path, kind, number)
        op, name = Operation(kind=kind, target=target), OperationId(f"{world.tag}-op-{number}")
        pid = in_child(lambda op=op, name=name: drive(world, op, name))  # type: ignore[misc]
        time.sleep(chance.uniform(0, 0.15))
        with_suppressed_kill(pid)
        status_of(pid)
        succeed(world, op, name)
        check_after(world, kind, target, diary)
        world.clean()


def test_two_processes_racing_the_same_create_make_one_copy(world: World, tmp_path: Path) -> None:
    for number in range(3):
        target, diary = diarist(world, tmp_path, number)
        op, name = Operation(kind="CREATE", target=target), OperationId(f"{world.tag}-op-{number}")
        racers = [in_child(lambda: race(world, op, name)) for _ in range(3)]  # noqa: B023
        assert [status_of(pid) for pid in racers] == [0, 0, 0]
        check_after(world, "CREATE", target, diary)
        world.clean()


def test_two_processes_racing_different_creates_make_one_copy(world: World, tmp_path: Path) -> None:
    for number in range(3):
        target, diary = diarist(world, tmp_path, number)
        op = Operation(kind="CREATE", target=target)
        names = [OperationId(f"op-{number}-{racer}") for racer in range(3)]
        racers = [in_child(lambda: race(world, op, name)) for name in names]  # noqa: B023
        codes = sorted(status_of(pid) for pid in racers)
        # One wins, the others are refused.
        assert codes == [0, 3, 3]
        check_after(world, "CREATE", target, diary)
        world.clean()


def race(world: World, op: Operation, name: OperationId) -> None:
    """Submit through the real face, which waits for a lock that is taken."""
    import asyncio

    async def story() -> ProgressState:
        profile = world.profile()
        progress = await profile.submit(op, operation_id=name, deadline_s=60)
        async with asyncio.timeout(120):
            while progress.state is ProgressState.RUNNING:
                await asyncio.sleep(0.02)
                progress = await profile.poll(op, operation_id=name, deadline_s=60)
        return progress.state

    state = asyncio.run(story())
    os._exit({ProgressState.DONE: 0, ProgressState.FAILED: 3}.get(state, 4))


def test_fifty_nodes_at_once_have_fifty_ports(world: World) -> None:
    import asyncio

    async def story() -> list[object]:
        profile = world.profile()

        async def one(number: int) -> object:
            op = Operation(kind="CREATE", target=world.target(number, port="auto"))
            name = OperationId(f"{world.tag}-op-{number}")
            progress = await profile.submit(op, operation_id=name, deadline_s=60)
            async with asyncio.timeout(200):
                while progress.state is ProgressState.RUNNING:
                    await asyncio.sleep(0.1)
                    progress = await profile.poll(op, operation_id=name, deadline_s=60)
            assert progress.state is ProgressState.DONE, progress
            assert progress.attributes
            return progress.attributes["port"]

        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(one(number)) for number in range(50)]
        return [task.result() for task in running]

    ports = asyncio.run(story())
    assert len(set(ports)) == 50
    assert len(world.carriers()) == 50
