"""To whom a file or folder is open: where another may write, he puts his own words into our mouth.

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

if TYPE_CHECKING:
    from pathlib import Path


def writer_fault(path: Path, found: os.stat_result, *, sticky: bool = False) -> str | None:
    """Return who else may write what `found` describes, and what to type; None where nobody may.

    `sticky`: a folder where others may add files, yet not touch ours, will do.
    """
    if owned := owner_fault(path, found):
        return owned
    mode = stat.S_IMODE(found.st_mode)
    shared = mode & stat.S_IWOTH or (mode & stat.S_IWGRP and _has_others(found.st_gid))
    if not shared or (sticky and mode & stat.S_ISVTX):
        return None
    private = "700" if stat.S_ISDIR(found.st_mode) else "600"
    return f"others may write it (mode {mode:04o}); chmod {private} {shlex.quote(str(path))}"


def owner_fault(path: Path, found: os.stat_result) -> str | None:
    """Return whose it is and what to type, unless it is ours or root's."""
    us = os.geteuid()
    if found.st_uid in {us, 0}:
        return None
    owner, place = _name(found.st_uid), shlex.quote(str(path))
    change = f"chown {_name(us)} {place}"
    if us == 0:
        return f"it belongs to {owner}, and this is root; run it as {owner}, or {change}"
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
