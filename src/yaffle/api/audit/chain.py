"""The files of the audit log: lines are appended, full files followed by new ones, the oldest removed.

A file is called by the number of its first line, so that order needs no reading. `ROLE.head` holds the
number and hash of the newest line: by it a log is known that was cut at its end.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from yaffle.api.audit.line import BEGINNING, opened, sealed

TAIL_MAX: Final = 1 << 20
"""No line is as long; the last one is sought in so much of a file's end."""


def files_of(folder: Path, role: str) -> list[Path]:
    """Return the files of a log, the oldest first."""
    return sorted(folder.glob(f"{role}-{'[0-9]' * 12}.log"))


def head_of(folder: Path, role: str) -> Path:
    """Return the file that says how far a log goes."""
    return folder / f"{role}.head"


class Chain:
    """A log that is open for writing; every method may raise OSError, and leaves whole lines behind."""

    def __init__(self, folder: Path, role: str, *, file_max: int, files_max: int) -> None:
        """Go on where the newest file ends; BlockingIOError where another process writes it."""
        self._folder = folder
        self._role = role
        self._file_max = file_max
        self._files_max = files_max
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._head = os.open(head_of(folder, role), _FLAGS, 0o600)
        self._file = -1
        self._seq, self._last, self._size = 0, BEGINNING, 0
        try:
            fcntl.flock(self._head, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.torn = self._go_on()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the files; idempotent."""
        for descriptor in (self._file, self._head):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._head = -1

    def append(self, facts: Mapping[str, object]) -> None:
        """Write one line whole, or nothing."""
        line, found = sealed(self._seq + 1, self._last, facts)
        if self._size + len(line) > self._file_max and self._size:
            self._begin(self._seq + 1)
        whole = False
        try:
            whole = os.write(self._file, line) == len(line)
        finally:
            if not whole:
                os.ftruncate(self._file, self._size)
        if not whole:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._size += len(line)
        self._seq, self._last = self._seq + 1, found
        os.pwrite(self._head, f"{self._seq:012d} {self._last}\n".encode(), 0)

    def sync(self) -> None:
        """Have the disk keep what was written."""
        os.fdatasync(self._file)

    def _go_on(self) -> int:
        """Open the newest file behind its last whole line; return how many bytes were torn off."""
        found = files_of(self._folder, self._role)
        if not found:
            self._begin(1)
            return 0
        for before in reversed(found):
            # A file may have been begun, and the process gone before its first line.
            if line := _last_line(before):
                if (last := opened(line)) is not None:
                    self._seq, self._last = last.seq, last.hash
                else:
                    # Somebody has changed it. It stays, the number goes on, and `verify` tells.
                    self._seq = _numbered(os.pread(self._head, 12, 0))
                break
        self._file = os.open(found[-1], _FLAGS | os.O_APPEND, 0o600)
        size = os.fstat(self._file).st_size
        self._size = _whole(found[-1])
        os.ftruncate(self._file, self._size)
        return size - self._size

    def _begin(self, seq: int) -> None:
        path = self._folder / f"{self._role}-{seq:012d}.log"
        fresh = os.open(path, _FLAGS | os.O_APPEND, 0o600)
        if self._file >= 0:
            os.close(self._file)
        self._file, self._size = fresh, 0
        for old in files_of(self._folder, self._role)[: -self._files_max]:
            old.unlink()


_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


def _numbered(text: bytes) -> int:
    return int(text) if text.isdigit() else 0


def _tail(path: Path) -> bytes:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL_MAX))
        return file.read()


def _last_line(path: Path) -> bytes:
    """Return the last whole line of a file, without its end; empty where there is none."""
    return _tail(path).rpartition(b"\n")[0].rpartition(b"\n")[2]


def _whole(path: Path) -> int:
    """Return how many bytes of a file are whole lines."""
    return path.stat().st_size - len(_tail(path).rpartition(b"\n")[2])
