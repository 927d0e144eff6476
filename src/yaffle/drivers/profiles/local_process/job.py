"""Operation in hand: what its phases may touch, valid only while the node's lock is held."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import Final

from yaffle.drivers.profiles.local_process import process_table
from yaffle.drivers.profiles.local_process.folder import Folder
from yaffle.drivers.profiles.local_process.plans import KILL, Phase
from yaffle.drivers.profiles.local_process.ports import Ports
from yaffle.drivers.profiles.local_process.process_table import ProcessTable
from yaffle.drivers.profiles.local_process.procfs import Identity, Procfs, Stat
from yaffle.drivers.profiles.local_process.record import Current, Record
from yaffle.drivers.profiles.local_process.spec import Spec
from yaffle.model.operations import Target
from yaffle.ports.clock import Clock

_COPIES: Final = uuid.UUID("5b0c2f0e-6f5e-4c1c-9d4a-0f6f1a0d7b1e")


@dataclass(frozen=True, slots=True)
class Next:
    """The phase is over; `detail` may tell the operation's result."""

    detail: str = ""


@dataclass(frozen=True, slots=True)
class Wait:
    """Answer of a phase: not yet, ask again."""

    detail: str


@dataclass(frozen=True, slots=True)
class Fail:
    """Answer of a phase: it cannot be done."""

    detail: str


@dataclass(frozen=True, slots=True)
class Finish:
    """Done already, the rest of the plan is not needed."""

    detail: str


Outcome = Next | Wait | Fail | Finish


@dataclass(slots=True, kw_only=True)
class Job:
    """The hands of a phase."""

    folder: Folder
    record: Record
    target: Target
    spec: Spec
    lock: int
    procfs: Procfs
    passes: process_table.Passes
    ports: Ports
    clock: Clock
    until_s: float
    """Monotonic time by which the call that carries this job returns."""
    vacated: bool = False
    """Whether nothing of the node lived when we looked, in this very call.

    Then nothing of it can come to be while we hold its lock: what does not live cannot fork, and a
    launcher holds the lock itself.
    """

    @property
    def current(self) -> Current:
        """The operation under way."""
        if self.record.current is None:
            raise AssertionError("a job without an operation")
        return self.record.current

    def left_s(self) -> float:
        """Return how much of the call is left, at least 0."""
        return max(0.0, self.until_s - self.clock.monotonic_s())

    def in_phase_s(self) -> float:
        """Return how long the present phase has lasted."""
        return self.clock.monotonic_s() - self.current.phase_since_s

    def save(self, record: Record) -> None:
        """Write the record, then believe it.

        A kill does not depend on it: fencing has to work on a full disk.
        """
        try:
            self.folder.save(record)
        except OSError:
            if self.current.kind != KILL:
                raise
        self.record = record

    def enter(self, phase: Phase, detail: str) -> None:
        """Write down which phase comes next, before anything of it is done."""
        since = self.clock.monotonic_s()
        current = replace(
            self.current, phase=phase.value, phase_since_s=since, signalled=False, detail=detail
        )
        self.save(replace(self.record, current=current))

    def started(self) -> Identity | None:
        """Return the process that was launched last, living or not."""
        launch = self.folder.load_launch()
        return None if launch is None or launch.error else launch.identity

    def main(self) -> Stat | None:
        """Return that process while it is there, zombie or not."""
        started = self.started()
        return None if started is None else self.procfs.find(started)

    def look(self) -> ProcessTable:
        """Return what lives of the node; "nothing" is said after two passes agree.

        One pass could miss a process that forks and ends while the list is read.
        """
        found = self._look_once()
        return self._look_once() if found.empty else found

    def _look_once(self) -> ProcessTable:
        return process_table.of_node(
            self.procfs,
            self.passes.take(),
            self.folder.node_id,
            started=self.started(),
            folder=self.folder.path,
        )


def copy_id(operation_id: str) -> str:
    """Return the physical id of the copy that this CREATE makes, whoever carries it out."""
    return str(uuid.uuid5(_COPIES, operation_id))
