"""The lock on a database file: one engine per file."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING, Self

from yaffle.errors import Conflict, StoreUnavailable

if TYPE_CHECKING:
    from pathlib import Path


def lock_of(database: Path) -> Path:
    """Return the lock file that belongs to a database file."""
    return database.with_name(database.name + ".lock")


class FileLock:
    """An flock on `<database>.lock` with the holder's pid in it; the kernel frees it on any death.

    The file is never removed: a newcomer could lock the removed one while another locks its heir.
    """

    def __init__(self, database: Path) -> None:
        self.path = lock_of(database)
        self._fd: int | None = None

    def acquire(self) -> Self:
        """Take the lock now; raise Conflict with the holder's pid if somebody has it."""
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise StoreUnavailable(
                f"lock {self.path}: {error.strerror}: check that its folder exists and is writable"
            ) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(fd)
            raise Conflict(
                f"another engine already works on this database: process {holder} holds"
                f" {self.path}; stop it first, or give this one its own database.url"
            ) from error
        except OSError as error:
            os.close(fd)
            raise StoreUnavailable(
                f"lock {self.path}: {error.strerror}: keep the database on a local file system"
            ) from error
        self._fd = fd
        self._sign(f"{os.getpid()}\n")
        return self

    def _sign(self, text: str) -> None:
        assert self._fd is not None  # noqa: S101 - narrows the type
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, text.encode(), 0)
        except OSError:
            # A full disk: the lock holds all the same, only the courtesy of the pid is lost.
            return

    def release(self) -> None:
        """Give it back; idempotent."""
        if self._fd is not None:
            self._sign("")
            os.close(self._fd)
            self._fd = None
