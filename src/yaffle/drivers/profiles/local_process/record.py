"""Record of a node for good: its copy, its port, the operation under way, the last ones ended.

The pid is not here but in `Launch`, which the launcher writes by itself just before it becomes the
node: whoever dies meanwhile, either that file names the process or no process was started.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import msgspec

from yaffle.drivers.profiles.local_process.procfs import Identity
from yaffle.model.msgspec_init import UNREADABLE, prepared
from yaffle.model.operations import Progress, ProgressState

FINISHED_MAX: Final = 16
_DETAIL_MAX: Final = 2000


class RecordUnreadable(Exception):
    """A record exists but says nothing we understand: what runs is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The end of an operation; kept so that a repeated request is answered and not acted upon."""

    operation_id: str
    kind: str
    state: ProgressState
    """DONE, FAILED, or ABSENT for one that a later operation superseded."""
    detail: str
    physical_id: str = ""
    attributes: dict[str, object] | None = None

    def progress(self) -> Progress:
        """Return what `poll` answers."""
        return Progress(
            state=self.state,
            detail=self.detail,
            physical_id=self.physical_id or None,
            attributes=self.attributes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Current:
    """The operation under way. Times are seconds of CLOCK_BOOTTIME, hence only true of one boot."""

    operation_id: str
    kind: str
    plan: str
    phase: str
    phase_since_s: float
    started_us: int
    deadline_s: float
    boot: str
    signalled: bool = False
    detail: str = ""


@prepared
@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """`record.json` of a node."""

    version: int = 1
    node_id: str
    physical_id: str = ""
    node_ip: str = ""
    port: int | None = None
    log_file: str = ""
    wanted: bool = False
    """Whether it ought to run: tells "switched off" from "died"."""
    current: Current | None = None
    finished: tuple[Finished, ...] = ()

    @property
    def attributes(self) -> dict[str, object]:
        """Facts for URLs and people."""
        facts: dict[str, object] = {"node_ip": self.node_ip, "log_file": self.log_file}
        return facts if self.port is None else facts | {"port": self.port}

    def ended(self, operation_id: str) -> Finished | None:
        """Return how that operation ended, if it is remembered."""
        return next((f for f in self.finished if f.operation_id == operation_id), None)

    def finish(
        self, state: ProgressState, detail: str, *, made: bool, pid: int | None = None
    ) -> Record:
        """Move the operation under way to the finished ones; `made`: it made the copy in the record."""
        if self.current is None:
            return self
        facts = self.attributes if pid is None else self.attributes | {"pid": pid}
        entry = Finished(
            operation_id=self.current.operation_id,
            kind=self.current.kind,
            state=state,
            detail=detail[:_DETAIL_MAX],
            physical_id=self.physical_id if made else "",
            attributes=facts if made else None,
        )
        kept = (*self.finished, entry)[-FINISHED_MAX:]
        return replace(self, current=None, finished=kept)


@prepared
@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """`launch.json`: written by the launcher before it executes the command, and if that fails."""

    operation_id: str
    pid: int
    start: int
    boot: str
    error: str = ""

    @property
    def identity(self) -> Identity:
        """The process that was started; also the id of its session and group."""
        return Identity(pid=self.pid, start=self.start, boot=self.boot)


@prepared
@dataclass(frozen=True, slots=True, kw_only=True)
class Tombstone:
    """The remains of a deleted node: answers to late questions, and its port for the next copy."""

    version: int = 1
    node_id: str
    node_ip: str
    port: int | None
    finished: tuple[Finished, ...]


def encode(value: Record | Tombstone) -> bytes:
    """Return the file's content."""
    return msgspec.json.format(msgspec.json.encode(value), indent=1)


def decode_record(data: bytes, *, place: str) -> Record:
    """Parse `record.json`; raises RecordUnreadable."""
    try:
        return msgspec.json.decode(data, type=Record)
    except UNREADABLE as error:
        raise RecordUnreadable(f"{place}: {error}") from error


def decode_launch(data: bytes, *, place: str) -> Launch:
    """Parse `launch.json`; raises RecordUnreadable."""
    try:
        return msgspec.json.decode(data, type=Launch)
    except UNREADABLE as error:
        raise RecordUnreadable(f"{place}: {error}") from error


def decode_tombstone(data: bytes, *, place: str) -> Tombstone:
    """Parse a tombstone; raises RecordUnreadable."""
    try:
        return msgspec.json.decode(data, type=Tombstone)
    except UNREADABLE as error:
        raise RecordUnreadable(f"{place}: {error}") from error
