"""Finds and ends what carries the demo's mark; also as a guard that outlives a demo killed with -9.

`python -m yaffle.cli.demo.cleanup FOLDER` waits until its standard input ends, which happens when
whoever holds the other side is gone in whatever way, and then removes what is left.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from yaffle.cli.client.deadlines import Deadline, pause

MARK: Final = "WOODPECKER_DEMO"
"""Environment variable of every process of the demo but itself and its guard; holds the folder's name."""
KILL_S: Final = 5.0


def members(folder: Path) -> Mapping[int, str]:
    """Return pid and command of every living process of the demo in `folder`, its server included."""
    return dict(_carriers(f"{MARK}={folder.name}".encode()))


def end_all(folder: Path) -> Iterator[str]:
    """Kill every member until none is left, and remove the folder; yield what was not as it should be."""
    deadline = Deadline(KILL_S)
    killed: dict[int, str] = {}
    while left := members(folder):
        if deadline.over:
            yield f"still there: {left}"
            break
        for pid in left:
            _kill(pid)
        killed.update(left)
        pause(0.05)
    if killed:
        yield f"killed what was left: {killed}"
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        yield f"the folder {folder} could not be removed"


def _carriers(mark: bytes) -> Iterator[tuple[int, str]]:
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environ = (entry / "environ").read_bytes()
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if mark in environ.split(b"\0") and state not in "ZX":
            words = command.decode("utf-8", "replace").split("\0")
            yield int(entry.name), " ".join(words)[:200].strip()


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def main(folder: Path) -> None:
    """Be the guard."""
    sys.stdin.buffer.read()
    for _ in end_all(folder):
        # Nobody is left to be told.
        continue


if __name__ == "__main__":
    main(Path(sys.argv[1]))
