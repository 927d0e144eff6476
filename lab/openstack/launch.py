"""Starts one process of the lab: writes down who it is *before* it begins, so that none is ever lost.

A program of its own (`launch.py RECORD LOG ACCOUNT COMMAND…`), because it forks: the process must
outlive us, and must not become a zombie of a test that forgot it. Needs the standard library only.
"""

from __future__ import annotations

import json
import os
import pwd
import sys
from pathlib import Path


def ticks_of(pid: int) -> int:
    """Return when a process began, in clock ticks since boot: with its number, this is who it is."""
    # The second field, the name in brackets, may itself hold spaces and brackets.
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[19])


def _write(record: Path, command: list[str]) -> None:
    pid = os.getpid()
    draft = record.with_suffix(".new")
    draft.write_text(json.dumps({"pid": pid, "ticks": ticks_of(pid), "command": command}))
    draft.replace(record)


def _become(account: str) -> None:
    if account and os.geteuid() == 0:
        entry = pwd.getpwnam(account)
        os.setgroups([])
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)


def _begin(record: Path, log: Path, account: str, command: list[str]) -> None:
    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, target in ((null, 0), (out, 1), (out, 2)):
        os.dup2(source, target)
    os.chdir("/")
    _write(record, command)
    _become(account)
    os.execvp(command[0], command)


def main() -> None:
    """Fork, begin, and return when the program runs; say why if it cannot."""
    record, log, account, *command = sys.argv[1:]
    told, tell = os.pipe()  # `tell` closes by itself when the program begins
    if os.fork():
        os.close(tell)
        with os.fdopen(told, "rb") as words:
            complaint = words.read().decode(errors="replace")
        sys.exit(complaint or 0)
    try:
        _begin(Path(record), Path(log), account, command)
    except (OSError, KeyError) as error:
        os.write(tell, f"{command[0]}: {error}".encode())
    os._exit(127)


if __name__ == "__main__":
    main()
