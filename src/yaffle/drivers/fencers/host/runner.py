"""Runs one fence agent and lets nothing of it outlive its time, its engine or its engine's freeze.

A program of its own, stdlib only: `python -I -S runner.py`. The first line of stdin is the request
(JSON: `agent`, `input`, `timeout_s`, `max_output`); the pipe then stays open, and its end means that
the engine has died or given up. One line of JSON on stdout says how it went: `exit`, `out`, `err`,
`fault`. Nothing secret is in its arguments or its environment.

A late "off" would hit whoever runs on the host by then: a successor may have fenced it, healed its
nodes and switched it on again. Hence everything that the agent started is killed before this ends;
as its subreaper this program knows that nothing is left, double forks and setsid included.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any, Final

ENVIRONMENT: Final = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C",
    "LC_ALL": "C",
    "HOME": "/",
}
KILL_PROOF_S: Final = 2.0
FREEZE_S: Final = 0.5
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class Kept:
    """The first `limit` bytes of a stream of any length."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()

    def add(self, chunk: bytes) -> None:
        self._kept += chunk[: self._limit - len(self._kept)]

    def text(self) -> str:
        return self._kept.decode("utf-8", "replace")


def main() -> int:
    """Read the request, run the agent, tell."""
    # Not through a buffer: what is left in the pipe, its end above all, is for `select`.
    request: dict[str, Any] = json.loads(_line(0))
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    os.write(1, json.dumps(run(request)).encode() + b"\n")
    return 0


def _line(fd: int) -> bytes:
    found = b""
    while not found.endswith(b"\n"):
        chunk = os.read(fd, 65_536)
        if not chunk:
            raise EOFError
        found += chunk
    return found


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Run the agent to its end, or end it."""
    out, err = Kept(int(request["max_output"])), Kept(int(request["max_output"]))
    deadline = _born() + float(request["timeout_s"])
    try:
        agent = _start(request)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return {"exit": None, "out": "", "err": "", "fault": f"could not be started: {error}"}
    with selectors.DefaultSelector() as waiting:
        streams = _register(waiting, agent, out, err)
        fault = _await_end(waiting, agent, deadline)
        code = agent.poll()
        left = _kill_all(agent)
        _drain(waiting, streams)
    if left:
        fault = f"{fault}; {left} of its processes could not be killed".removeprefix("; ")
    return {"exit": code, "out": out.text(), "err": err.text(), "fault": fault}


def _start(request: dict[str, Any]) -> subprocess.Popen[bytes]:
    # A memory file, not a pipe: an agent that never reads its options blocks nobody.
    stdin = os.memfd_create("options")
    try:
        with os.fdopen(os.dup(stdin), "wb") as file:
            file.write(request["input"].encode())
        os.lseek(stdin, 0, os.SEEK_SET)
        return subprocess.Popen(
            [request["agent"]],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            env=ENVIRONMENT,
            start_new_session=True,
            preexec_fn=_confine,  # noqa: PLW1509 - one thread only
        )
    finally:
        os.close(stdin)


def _confine() -> None:
    # A core file would hold the password.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _register(
    waiting: selectors.BaseSelector, agent: subprocess.Popen[bytes], out: Kept, err: Kept
) -> list[IO[bytes]]:
    streams: list[IO[bytes]] = []
    for stream, kept in ((agent.stdout, out), (agent.stderr, err)):
        if stream is not None:
            os.set_blocking(stream.fileno(), False)
            waiting.register(stream, selectors.EVENT_READ, kept)
            streams.append(stream)
    waiting.register(os.pidfd_open(agent.pid), selectors.EVENT_READ, None)
    waiting.register(0, selectors.EVENT_READ, "engine")
    return streams


def _await_end(
    waiting: selectors.BaseSelector, agent: subprocess.Popen[bytes], deadline: float
) -> str:
    """Read what the agent writes until it ends; else return why it was not waited for any longer."""
    while agent.poll() is None:
        left = deadline - _now()
        if left <= 0:
            return "did not end in time and was killed"
        if not _read_ready(waiting, left):
            return "was killed because its engine has gone"
    return ""


def _read_ready(waiting: selectors.BaseSelector, wait_s: float) -> bool:
    """Take what is there; False when nobody waits for it any more."""
    for key, _ in waiting.select(wait_s):
        if key.data == "engine":
            return bool(os.read(key.fd, 1))
        if isinstance(key.data, Kept):
            _take(waiting, key, key.data)
    return True


def _take(waiting: selectors.BaseSelector, key: selectors.SelectorKey, kept: Kept) -> None:
    with contextlib.suppress(BlockingIOError):
        chunk = os.read(key.fd, 65_536)
        if chunk:
            kept.add(chunk)
        else:
            waiting.unregister(key.fileobj)


def _kill_all(agent: subprocess.Popen[bytes]) -> int:
    """Kill everything that the agent started; return how many are not proved to be gone."""
    begun = _now()
    frozen: set[int] = set()
    while _now() < begun + KILL_PROOF_S:
        if not _has_children(agent):
            return 0
        alive = _descendants()
        # Freeze before killing: what forks faster than we look could go on for ever. Freezing has
        # its own bound, so that nothing is left frozen but alive.
        if alive <= frozen or _now() > begun + FREEZE_S:
            _signal_all(alive, signal.SIGKILL)
        else:
            _signal_all(alive - frozen, signal.SIGSTOP)
            frozen |= alive
        select.select((), (), (), 0.002)
    _signal_all(_descendants(), signal.SIGKILL)
    return max(1, len(_descendants())) if _has_children(agent) else 0


def _has_children(agent: subprocess.Popen[bytes]) -> bool:
    """Reap orphans; False is the kernel's word that no descendant is left."""
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        if found is None:
            return True
        if found.si_pid == agent.pid:
            agent.poll()
        else:
            os.waitpid(found.si_pid, os.WNOHANG)


def _descendants() -> set[int]:
    """Return what lives below us."""
    parents: dict[int, list[int]] | None = None
    if not Path(f"/proc/self/task/{os.getpid()}/children").exists():
        parents = _everybody()
    found: set[int] = set()
    todo = [os.getpid()]
    while todo:
        pid = todo.pop()
        new = set(_children(pid) if parents is None else parents.get(pid, [])) - found
        found |= new
        todo += new
    return {pid for pid in found if _stat(pid)[:1] not in ([], ["Z"])}


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
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            found.setdefault(int(fields[1]), []).append(int(entry.name))
    return found


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat from the state (field 3) on; empty when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def _signal_all(pids: set[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _drain(waiting: selectors.BaseSelector, streams: list[IO[bytes]]) -> None:
    """Take what the dead have left in their pipes."""
    for key in list(waiting.get_map().values()):
        if isinstance(key.data, Kept):
            while key.fd in waiting.get_map() and select.select([key.fd], (), (), 0)[0]:
                _take(waiting, key, key.data)
        elif key.data is None:
            os.close(key.fd)
    for stream in streams:
        stream.close()


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")


def _born() -> float:
    """Return when this process began: its engine's time runs since then, not since we are ready."""
    ticks = int(_stat(os.getpid())[19])
    return min(_now(), ticks / os.sysconf("SC_CLK_TCK"))


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


if __name__ == "__main__":
    sys.exit(main())
