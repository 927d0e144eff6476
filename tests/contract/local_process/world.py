"""A private state directory with real processes in it, and the certainty that none survives the test."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.waiting import wait_for

from yaffle.drivers.fencers.compute import ComputeFencer
from yaffle.drivers.profiles.local_process import LocalProcess
from yaffle.drivers.profiles.local_process.folder import Busy
from yaffle.drivers.profiles.local_process.procfs import Procfs
from yaffle.drivers.profiles.local_process.worker import Worker
from yaffle.model.ids import NodeId, OperationId
from yaffle.model.operations import Operation, Progress, ProgressState, Reading, Target
from yaffle.ports import DriverContext

PYTHON = (sys.executable, "-I", "-S", "-c")
SLEEP = (*PYTHON, "import time; time.sleep(600)")


class RealClock:
    def now_us(self) -> int:
        return time.time_ns() // 1000

    def monotonic_s(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@dataclass
class World:
    state_dir: Path
    tag: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    clock: RealClock = field(default_factory=RealClock)

    def profile(self, procfs: Procfs | None = None) -> LocalProcess:
        """A driver that knows nothing but the state directory, as a new engine's does."""
        return LocalProcess(
            DriverContext(clock=self.clock, state_dir=self.state_dir), procfs=procfs
        )

    def fencer(self, procfs: Procfs | None = None) -> ComputeFencer:
        profile = self.profile(procfs)
        return ComputeFencer(
            DriverContext(
                clock=self.clock, state_dir=self.state_dir, profiles={profile.type: profile}
            )
        )

    def worker(self, procfs: Procfs | None = None) -> Worker:
        """The part below the event loop, without threads: may be forked."""
        return Worker(self.state_dir, procfs or Procfs(), self.clock)

    def target(self, number: int = 0, **spec: object) -> Target:
        spec.setdefault("command", list(SLEEP))
        return Target(
            node_id=NodeId(f"{self.tag}-{number}"),
            name=f"web-{number}",
            physical_id="",
            index=number,
            cluster_name="web",
            profile_type=LocalProcess.type,
            spec=dict(LocalProcess.validate(self.profile(), spec)),
        )

    def folder(self, target: Target) -> Path:
        return self.state_dir / "nodes" / target.node_id

    def run(
        self,
        kind: str,
        target: Target,
        operation_id: str | None = None,
        *,
        timeout_s: float = 600.0,
        worker: Worker | None = None,
        **params: object,
    ) -> Progress:
        """Submit, then poll to the end."""
        worker = worker or self.worker()
        op = Operation(kind=kind, target=target, params=params, timeout_s=timeout_s)
        name = OperationId(operation_id or uuid.uuid4().hex)
        return self.finish(op, name, self.call(worker.submit, op, name), worker)

    def call(
        self, step: Callable[[Operation, OperationId, float], Progress], op: Operation, name: str
    ) -> Progress:
        """One call of a worker; tries again while somebody, or a launcher, holds the lock."""
        end = time.monotonic() + 120
        while True:
            try:
                return step(op, OperationId(name), self.clock.monotonic_s() + 60)
            except Busy:
                assert time.monotonic() < end
                time.sleep(0.01)

    def finish(
        self, op: Operation, name: OperationId, progress: Progress, worker: Worker
    ) -> Progress:
        end = time.monotonic() + 120
        while progress.state is ProgressState.RUNNING:
            assert time.monotonic() < end, progress
            time.sleep(0.02)
            progress = self.call(worker.poll, op, name)
        return progress

    def read(self, target: Target) -> Reading:
        return asyncio.run(self.profile().read([target], deadline_s=60))[0]

    def carriers(self, target: Target | None = None) -> dict[int, str]:
        """Pid to state of every living process with a marker, found without the code under test."""
        mark = f"YAFFLE_NODE_ID={target.node_id if target else self.tag}".encode()
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            # Thread by thread: a process whose main thread has ended still shows the others.
            try:
                threads = list((entry / "task").iterdir())
            except OSError:
                continue
            for thread in threads:
                try:
                    environment = (thread / "environ").read_bytes()
                    state = (thread / "stat").read_text().rpartition(")")[2].split()[0]
                except OSError:
                    continue
                if mark in environment and state not in "ZX":
                    found[int(entry.name)] = state
        return found

    def clean(self) -> None:
        def gone() -> bool:
            for pid in self.carriers():
                with_suppressed_kill(pid)
            return not self.carriers()

        wait_for(gone)


def with_suppressed_kill(pid: int, number: int = signal.SIGKILL) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def environment_of(pid: int) -> Mapping[str, str]:
    data = Path(f"/proc/{pid}/environ").read_bytes().decode()
    return dict(entry.split("=", 1) for entry in data.split("\0") if "=" in entry)
