"""Writes the users file: one writer at a time, whole or not at all, never readable for others."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from yaffle.api.auth import users
from yaffle.api.auth.secure_file import read_private
from yaffle.errors import ConfigError


def rewrite(path: Path, change: Callable[[str], str], *, create: bool = False) -> None:
    """Replace the file's text by what `change` returns for it; others wait meanwhile.

    The file is read and judged before and after, so a file that the server would refuse is neither
    changed nor written. `create`: begin with nothing where there is none. Raises ConfigError.
    """
    target = path.resolve()
    try:
        with _alone(target.parent):
            text = "" if create and not target.exists() else read_private(target, users.SETTING)
            users.parsed(path, text)
            new = change(text)
            users.parsed(path, new)
            _replace(target, new)
    except OSError as error:
        raise ConfigError(f"{users.SETTING} = {path}: {error.strerror}") from None


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder: the file itself is replaced, so a lock on it would be on its past."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _replace(target: Path, text: str) -> None:
    fresh = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            _same_owner(descriptor, target)
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        fresh.replace(target)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def _same_owner(descriptor: int, target: Path) -> None:
    """Leave the file to whom it belonged: root may change it for a server that is not root."""
    try:
        old = target.stat()
    except FileNotFoundError:
        return
    now = os.fstat(descriptor)
    if (old.st_uid, old.st_gid) != (now.st_uid, now.st_gid):
        os.fchown(descriptor, old.st_uid, old.st_gid)
