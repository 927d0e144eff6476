"""Records of what was sent, to whom and with which outcome, on disk before the first byte leaves.

Without it an engine that dies between POST and answer would not know whether to ask or to send.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from yaffle.model.ids import OperationId
from yaffle.model.msgspec_init import UNREADABLE, prepared

KEPT_RECORDS: Final = 500
_SAFE_NAME: Final = re.compile(r"[A-Za-z0-9_:-][A-Za-z0-9_.:-]{0,127}", re.ASCII)


class Stage(StrEnum):
    """The progress of one operation, as far as it is certain."""

    UNSENT = "unsent"
    """The service cannot have begun: nothing left us, or it said "later"."""
    SENDING = "sending"
    """Something may have arrived: also what a crash during the POST leaves behind."""
    ACCEPTED = "accepted"
    """The service said 202: it knows, and is at work."""
    DONE = "done"
    FAILED = "failed"
    NOT_BEGUN = "not begun"
    """Nobody took it, and nobody will: no word of the service."""


ENDED: Final = frozenset({Stage.DONE, Stage.FAILED, Stage.NOT_BEGUN})


@prepared
@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The record of one operation; `body` is kept so that a repeat is the same message to the byte."""

    operation_id: str
    name: str
    body: str
    until_us: int
    """Wall clock. Nothing is sent after it, and silence then becomes a failure."""
    stage: Stage = Stage.SENDING
    poll_url: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """All records below `root`; every method blocks on the disk, call it in a thread."""

    root: Path

    def create(self, record: Record) -> bool:
        """Write it durably; False when this operation has one already."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._path(record.operation_id)
        scratch = self._write_scratch(path, record)
        try:
            # link, not rename: it fails where a record exists.
            os.link(scratch, path)
        except FileExistsError:
            return False
        finally:
            scratch.unlink()
        self._sync()
        return True

    def replace(self, record: Record) -> None:
        """Put `record` in the place of the operation's older one, durably."""
        path = self._path(record.operation_id)
        self._write_scratch(path, record).replace(path)
        self._sync()

    def find(self, operation_id: OperationId) -> Record | None:
        """Return the operation's record; raises OSError for one that is there but unreadable."""
        try:
            text = self._path(operation_id).read_bytes()
        except FileNotFoundError:
            return None
        try:
            return msgspec.json.decode(text, type=Record)
        except UNREADABLE as error:
            raise OSError(f"the record of {operation_id} is damaged: {error}") from error

    def prune(self) -> None:
        """Forget the oldest records that are ended; others only when twice as many are kept."""
        with contextlib.suppress(OSError):
            paths = sorted(self.root.glob("*.json"), key=lambda path: path.stat().st_mtime)
            for number, path in enumerate(reversed(paths)):
                if number >= 2 * KEPT_RECORDS or (number >= KEPT_RECORDS and _ended(path)):
                    path.unlink()

    def _path(self, operation_id: str) -> Path:
        if _SAFE_NAME.fullmatch(operation_id):
            return self.root / f"{operation_id}.json"
        return self.root / f"{hashlib.sha256(operation_id.encode()).hexdigest()}.json"

    def _write_scratch(self, path: Path, record: Record) -> Path:
        scratch = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        fd = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(msgspec.json.encode(record))
            file.flush()
            os.fsync(file.fileno())
        return scratch

    def _sync(self) -> None:
        fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _ended(path: Path) -> bool:
    try:
        record = msgspec.json.decode(path.read_bytes(), type=Record)
    except UNREADABLE:
        return True
    return record.stage in ENDED
