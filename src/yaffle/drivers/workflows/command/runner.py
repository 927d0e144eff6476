"""Runs one operator's program to its end and writes down how it ended, even if the engine dies.

A program of its own, stdlib only: `python -I -S runner.py JOB_DIR LOCK_FD`, request as JSON on
stdin. It detaches, keeps the lock it was given for as long as it lives, writes `started.json`
*before* it starts the program (so that a crash in between reads "unknown", never "not started"),
and ends with `result.json`. Nothing secret is in its arguments or on disk.

It is the subreaper of everything that the program starts. Hence `waitpid` saying "no children" is
proof that nothing is left, double forks and setsid included.
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

MARKER: Final = "YAFFLE_JOB"
"""As in jobs.py: how left-overs are found if this process is killed."""
TERM_GRACE_S: Final = 2.0
KILL_PROOF_S: Final = 5.0
FREEZE_S: Final = 2.0
DRAIN_S: Final = 1.0
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class Tail:
    """Keeps the last `limit` bytes of a stream of any length."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self.cut = False

    def add(self, chunk: bytes) -> None:
        self._kept += chunk
        if len(self._kept) > self._limit:
            self.cut = True
            del self._kept[: -self._limit]

    def text(self) -> str:
        return self._kept.decode("utf-8", "replace")


def main() -> int:
    """Read the request, detach, run, record."""
    job, lock_fd = Path(sys.argv[1]), int(sys.argv[2])
    request: dict[str, Any] = json.load(sys.stdin)
    os.set_inheritable(lock_fd, False)
    os.umask(0o077)
    if os.fork() != 0:
        # The engine waits for this exit only; the child belongs to init and needs no engine.
        os._exit(0)
    _let_go_of_stdio()
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _write(job / "started.json", {"runner": _identity(os.getpid()), "program": None})
    _write(job / "result.json", _run(job, request))
    return 0


def _run(job: Path, request: dict[str, Any]) -> dict[str, Any]:
    limit = int(request["max_output"])
    out, err = Tail(limit), Tail(limit)
    try:
        program = _start(job, request)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return {"state": "failed", "detail": f"could not start: {error}", "exit_code": None}
    started = {"runner": _identity(os.getpid()), "program": _identity(program.pid)}
    _write(job / "started.json", started)
    deadline = _now() + float(request["timeout_s"])
    with selectors.DefaultSelector() as waiting:
        streams = _register(waiting, program, out, err)
        in_time = _await_exit(waiting, program, deadline)
        if not in_time:
            _ask_to_end(waiting, program)
        exit_code = program.poll()
        left = _kill_all(program)
        if exit_code is None and program.returncode is not None:
            exit_code = program.returncode
        _drain(waiting, streams)
    _write(job / "output.json", {"stdout": out.text(), "stderr": err.text()})
    return _verdict(exit_code, in_time, left, out, err)


def _start(job: Path, request: dict[str, Any]) -> subprocess.Popen[bytes]:
    work = job / "work"
    work.mkdir(mode=0o700, exist_ok=True)
    # A memory file, not a pipe: a program that never reads its input blocks nobody.
    stdin = os.memfd_create("input")
    try:
        with os.fdopen(os.dup(stdin), "wb") as file:
            file.write(request["input"].encode())
        os.lseek(stdin, 0, os.SEEK_SET)
        return subprocess.Popen(
            request["argv"],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=work,
            env={"HOME": str(work), "TMPDIR": str(work), **request["env"], MARKER: str(job)},
            start_new_session=True,
            preexec_fn=lambda: _confine(int(request["nofile"])),  # noqa: PLW1509 - one thread only
        )
    finally:
        os.close(stdin)


def _confine(nofile: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = nofile if hard == resource.RLIM_INFINITY else min(nofile, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _register(
    waiting: selectors.BaseSelector, program: subprocess.Popen[bytes], out: Tail, err: Tail
) -> list[IO[bytes]]:
    streams: list[IO[bytes]] = []
    for stream, tail in ((program.stdout, out), (program.stderr, err)):
        if stream is not None:
            os.set_blocking(stream.fileno(), False)
            waiting.register(stream, selectors.EVENT_READ, tail)
            streams.append(stream)
    waiting.register(os.pidfd_open(program.pid), selectors.EVENT_READ, None)
    return streams


def _await_exit(
    waiting: selectors.BaseSelector, program: subprocess.Popen[bytes], deadline: float
) -> bool:
    """Read what the program writes until it ends; False when the deadline came first."""
    while program.poll() is None:
        left = deadline - _now()
        if left <= 0:
            return False
        _read_ready(waiting, left)
    return True


def _read_ready(waiting: selectors.BaseSelector, wait_s: float) -> bool:
    """Take what is there; False when nothing came in time."""
    events = waiting.select(wait_s)
    for key, _ in events:
        if not isinstance(key.data, Tail):
            continue
        with contextlib.suppress(BlockingIOError):
            chunk = os.read(key.fd, 65_536)
            if chunk:
                key.data.add(chunk)
            else:
                waiting.unregister(key.fileobj)
    return bool(events)


def _ask_to_end(waiting: selectors.BaseSelector, program: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGTERM)
    _await_exit(waiting, program, _now() + TERM_GRACE_S)


def _kill_all(program: subprocess.Popen[bytes]) -> list[int]:
    """Kill everything that the program started; return what is not proved to be gone."""
    begun = _now()
    frozen: set[int] = set()
    while _now() < begun + KILL_PROOF_S:
        if not _has_children(program):
            return []
        alive = _descendants()
        # Freeze before killing: what forks faster than we look could go on for ever. Freezing has
        # its own bound, so that nothing is left frozen but alive.
        if alive <= frozen or _now() > begun + FREEZE_S:
            _signal_all(alive, signal.SIGKILL)
        else:
            _signal_all(alive - frozen, signal.SIGSTOP)
            frozen |= alive
        select.select((), (), (), 0.002)
    left = _descendants()
    _signal_all(left, signal.SIGKILL)
    return sorted(left) if _has_children(program) else []


def _has_children(program: subprocess.Popen[bytes]) -> bool:
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


def _descendants() -> set[int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = _stat(int(entry.name))
            if fields and fields[0] != "Z":
                parents[int(entry.name)] = int(fields[1])
    found, before = {os.getpid()}, 0
    while len(found) != before:
        before = len(found)
        found |= {pid for pid, parent in parents.items() if parent in found}
    return found - {os.getpid()}


def _drain(waiting: selectors.BaseSelector, streams: list[IO[bytes]]) -> None:
    until = _now() + DRAIN_S
    for key in list(waiting.get_map().values()):
        if key.data is None:
            waiting.unregister(key.fileobj)
            os.close(key.fd)
    while waiting.get_map() and _now() < until and _read_ready(waiting, until - _now()):
        pass
    for stream in streams:
        stream.close()


def _verdict(
    exit_code: int | None, in_time: bool, left: list[int], out: Tail, err: Tail
) -> dict[str, Any]:
    last = _last_line(err) or _last_line(out)
    if not in_time:
        word = "killed after its timeout"
    elif exit_code == 0:
        word = "done"
    elif exit_code == os.EX_TEMPFAIL:
        word = f"temporary failure (exit {exit_code})"
    elif exit_code is not None and exit_code < 0:
        word = f"killed by signal {-exit_code}"
    else:
        word = f"exit {exit_code}"
    detail = f"{word}: {last}" if last else word
    if left:
        detail = f"NOT proved ended, {len(left)} processes left, e.g. {left[:5]}; {detail}"
    done = in_time and exit_code == 0 and not left
    return {
        "state": "done" if done else "failed",
        "detail": detail,
        "exit_code": exit_code,
        "timed_out": not in_time,
        "output_cut": out.cut or err.cut,
    }


def _last_line(tail: Tail) -> str:
    lines = [line.strip() for line in tail.text().splitlines() if line.strip()]
    return lines[-1][:500] if lines else ""


def _identity(pid: int) -> dict[str, int]:
    """A pid alone may be somebody else's later; with its start time it is not."""
    fields = _stat(pid)
    return {"pid": pid, "start_ticks": int(fields[19]) if fields else 0}


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


def _let_go_of_stdio() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)


def _write(path: Path, value: dict[str, Any]) -> None:
    """Replace `path` so that a reader, or a power cut, finds the old text or the new one."""
    scratch = path.with_suffix(".tmp")
    with scratch.open("w", encoding="utf-8") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}) failed")


def _now() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


if __name__ == "__main__":
    sys.exit(main())
