"""Privacy of files and folders: where another may write, he puts his own words into our mouth.

Trusted are this process's user and root. A group counts as others, unless nobody else is in it: so
are a user's own group, and the one that Kubernetes gives a volume.
"""

from __future__ import annotations

import grp
import os
import pwd
import shlex
import stat
from typing import TYPE_CHECKING

from yaffle.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def read_secret(
    path: Path, setting: str, *, most: int, owned: bool = True
) -> tuple[os.stat_result, bytes]:
    """Return what a file of secrets is, and what it holds; raise ConfigError naming the setting.

    The one rule for every setting that names such a file: others neither read nor write it, and it is
    ours or root's. Not `owned`: it may be another user's, for whom root works on it.
    """
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            fault = secret_fault(path, found) or (owner_fault(path, found) if owned else None)
            data = b"" if fault else file.read(most + 1)
    except OSError as error:
        raise ConfigError(f"{setting} = {path}: {error.strerror}") from None
    if fault is not None:
        raise ConfigError(f"{setting} = {path}: {fault}")
    if len(data) > most:
        raise ConfigError(f"{setting} = {path}: it is larger than {most} bytes")
    return found, data


def secret_fault(path: Path, found: os.stat_result) -> str | None:
    """Return that others may read or write a secret, and what to type; None where they may not."""
    mode = stat.S_IMODE(found.st_mode)
    of_group = mode & stat.S_IRGRP and _has_others(found.st_gid)
    if not of_group and not mode & (stat.S_IRWXO | stat.S_IWGRP):
        return None
    return f"others may read or change it (mode {mode:04o}); chmod 600 {shlex.quote(str(path))}"


def writer_fault(
    path: Path, found: os.stat_result, *, sticky: bool = False, change: str = ""
) -> str | None:
    """Return who else may write what `found` describes, and what to type; None where nobody may.

    `sticky`: a folder where others may add files, yet not touch ours, will do. `change`: what chmod is
    told; nothing: to make it private.
    """
    if owned := owner_fault(path, found):
        return owned
    mode = stat.S_IMODE(found.st_mode)
    shared = mode & stat.S_IWOTH or (mode & stat.S_IWGRP and _has_others(found.st_gid))
    if not shared or (sticky and mode & stat.S_ISVTX):
        return None
    change = change or ("700" if stat.S_ISDIR(found.st_mode) else "600")
    return f"others may write it (mode {mode:04o}); chmod {change} {shlex.quote(str(path))}"


def way_fault(path: Path) -> str | None:
    """Return where on the way to `path` others could put something else, and what to type.

    Of each folder above it, and above whatever a link on the way leads to: who may write a folder may
    put another one, or a link, in the place of what lies there.
    """
    for entry in _way(path):
        folder = entry.parent.stat()
        fault = writer_fault(entry.parent, folder, sticky=True, change="go-w")
        if fault is None and folder.st_mode & stat.S_ISVTX:
            # Others may add there: what they have added is theirs to change.
            fault = owner_fault(entry, entry.lstat())
        if fault is not None:
            return f"{entry.parent} is on the way to it: {fault}"
    return None


def _way(path: Path) -> Iterator[Path]:
    """Yield what a path leads through, from the top; `path` exists, so no link leads in a circle."""
    path = path.absolute()
    for entry in reversed([path, *path.parents][:-1]):
        yield entry
        if entry.is_symlink():
            yield from _way(entry.parent / entry.readlink())


def owner_fault(path: Path, found: os.stat_result) -> str | None:
    """Return whose it is and what to type, unless it is ours or root's."""
    us = os.geteuid()
    if found.st_uid in {us, 0}:
        return None
    owner, place = _name(found.st_uid), shlex.quote(str(path))
    change = f"chown {_name(us)} {place}"
    if us == 0:
        # A folder may well be that of a service, which could not use it any more.
        change = "" if stat.S_ISDIR(found.st_mode) else f", or {change}"
        return f"it belongs to {owner}, and this is root; run it as {owner}{change}"
    return f"it belongs to {owner}; as root: {change}"


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _has_others(gid: int) -> bool:
    """Whether anybody but us and root is in a group of this machine."""
    try:
        named = set(grp.getgrgid(gid).gr_mem)
    except KeyError:
        named = set()
    of_it = {one.pw_uid for one in pwd.getpwall() if one.pw_gid == gid or one.pw_name in named}
    return bool(of_it - {os.geteuid(), 0})
