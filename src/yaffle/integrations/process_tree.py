"""Everything that a program has started is ended, and that nothing is left of it is proved.

For runners: small programs of their own, stdlib only, that start one program and outlive it. A runner
makes itself the subreaper of all that it starts; then `waitpid` saying "no children" is the kernel's
word that nothing is left, double forks and setsid included. It is run as `python -I -S runner.py`, so
it puts this package on its path by itself, and nothing but the standard library may be imported here.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Make this process the parent of every descendant whose own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Be killed when the runner is: for `preexec_fn` of a runner with one thread."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@contextlib.contextmanager
def memory_file(text: str) -> Iterator[int]:
    """Give a descriptor to read `text` from: not a pipe, so who never reads it blocks nobody."""
    descriptor = os.memfd_create("input")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(text.encode())
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


def end_all(
    program: subprocess.Popen[bytes], *, freeze_s: float, proof_s: float
) -> tuple[bool, list[int]]:
    """Kill everything below this process; return whether nothing is left, and what is.

    Freezes before it kills: what forks faster than we look could go on for ever. Freezing has a
    bound of its own, so that nothing is left frozen but alive.
    """
    begun_s = now_s()
    frozen: set[int] = set()
    while now_s() < begun_s + proof_s:
        if not has_children(program):
            return True, []
        alive = descendants()
        if alive <= frozen or now_s() > begun_s + freeze_s:
            _signal_all(alive, signal.SIGKILL)
        else:
            _signal_all(alive - frozen, signal.SIGSTOP)
            frozen |= alive
        select.select((), (), (), 0.002)
    left = descendants()
    _signal_all(left, signal.SIGKILL)
    return (False, sorted(left)) if has_children(program) else (True, [])


def end_below(pid: int, since: str, *, within_s: float) -> None:
    """Kill what lives below a runner that gets no turn to do so itself; its parent does this.

    `since` is what `started` said of it. As long as it lives, frozen or not, it is the subreaper of all
    of them, so that nothing escapes by letting go of its own parent.
    """
    killed: set[int] = set()
    until_s = now_s() + within_s
    # What was just forking when it was killed has a child that the next look finds.
    while alive := descendants(pid) - killed:
        if started(pid) != since or now_s() > until_s:
            return  # the number may be somebody else's by now, or it forks faster than we look
        _signal_all(alive, signal.SIGKILL)
        killed |= alive


def started(pid: int) -> str:
    """Return what tells a process from a later one of the same number; empty when it is gone."""
    fields = stat(pid)
    return fields[19] if len(fields) > 19 and fields[0] != "Z" else ""


def has_children(program: subprocess.Popen[bytes]) -> bool:
    """Reap orphans; False is the kernel's word that no descendant is left."""
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        if found is None:
            return True
        if found.si_pid == program.pid:
            program.poll()
        else:
            os.waitpid(found.si_pid, os.WNOHANG)


def descendants(of: int | None = None) -> set[int]:
    """Return what lives below a process; below this one where none is named."""
    parents: dict[int, list[int]] | None = None
    if not Path(f"/proc/self/task/{os.getpid()}/children").exists():
        parents = _everybody()
    found: set[int] = set()
    todo = [os.getpid() if of is None else of]
    while todo:
        pid = todo.pop()
        new = set(_children(pid) if parents is None else parents.get(pid, [])) - found
        found |= new
        todo += new
    return {pid for pid in found if stat(pid)[:1] not in ([], ["Z"])}


def stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state (field 3) on; empty when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def now_s() -> float:
    """Return the time since this machine was started; a freeze or a suspension counts."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _children(pid: int) -> list[int]:
    """Ask the kernel's own lists, since time is short here. Any thread may have forked."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (task / "children").read_text(encoding="ascii").split())
    return found


def _everybody() -> dict[int, list[int]]:
    """Return the children of every process, where the kernel keeps no lists of them."""
    found: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := stat(int(entry.name))):
            found.setdefault(int(fields[1]), []).append(int(entry.name))
    return found


def _signal_all(pids: set[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")
