"""Runs one operator's program to its end and writes down how it ended, even if the engine dies.

A program of its own, stdlib only: `python -I -S runner.py JOB_DIR LOCK_FD`, request as JSON on
stdin. It detaches, keeps the lock it was given for as long as it lives, writes `started.json`
*before* it starts the program (so that a crash in between reads "unknown", never "not started"),
and ends with `result.json`. Nothing secret is in its arguments or on disk.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import selectors
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Final

# Isolated as it is run, it finds our own package only so; the standard library comes first.
sys.path.append(str(Path(__file__).resolve().parents[4]))

from yaffle.integrations.masking import masked
from yaffle.integrations.process_tree import (
    adopt_orphans,
    die_with_parent,
    end_all,
    memory_file,
    now_s,
    stat,
)
from yaffle.model.counts import count

MARKER: Final = "YAFFLE_JOB"
"""As in jobs.py: how left-overs are found if this process is killed."""
TERM_GRACE_S: Final = 2.0
KILL_PROOF_S: Final = 5.0
FREEZE_S: Final = 2.0
DRAIN_S: Final = 1.0


class Tail:
    """Keeps the last `limit` bytes of a stream of any length; `hidden` are masked in its text."""

    def __init__(self, limit: int, hidden: Sequence[str]) -> None:
        self._limit = limit
        self._hidden = hidden
        self._kept = bytearray()
        self.cut = False

    def add(self, chunk: bytes) -> None:
        self._kept += chunk
        if len(self._kept) > self._limit:
            self.cut = True
            del self._kept[: -self._limit]

    def text(self) -> str:
        # As the secrets were read: what is no UTF-8 is compared byte for byte.
        said = masked(self._kept.decode("utf-8", "surrogateescape"), self._hidden, cut=self.cut)
        return said.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


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
    adopt_orphans()
    _write(job / "started.json", {"runner": _identity(os.getpid()), "program": None})
    _write(job / "result.json", _run(job, request))
    return 0


def _run(job: Path, request: dict[str, Any]) -> dict[str, Any]:
    limit = int(request["max_output"])
    hidden = tuple(map(str, request["hidden"]))
    out, err = Tail(limit, hidden), Tail(limit, hidden)
    try:
        program = _start(job, request)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return {"state": "not begun", "detail": f"could not start: {error}", "exit_code": None}
    started = {"runner": _identity(os.getpid()), "program": _identity(program.pid)}
    _write(job / "started.json", started)
    deadline = now_s() + float(request["timeout_s"])
    with selectors.DefaultSelector() as waiting:
        streams = _register(waiting, program, out, err)
        in_time = _await_exit(waiting, program, deadline)
        if not in_time:
            _ask_to_end(waiting, program)
        exit_code = program.poll()
        ended, left = end_all(program, freeze_s=FREEZE_S, proof_s=KILL_PROOF_S)
        if exit_code is None and program.returncode is not None:
            exit_code = program.returncode
        _drain(waiting, streams)
    _write(job / "output.json", {"stdout": out.text(), "stderr": err.text()})
    return _verdict(exit_code, in_time, None if ended else left, out, err)


def _start(job: Path, request: dict[str, Any]) -> subprocess.Popen[bytes]:
    work = job / "work"
    work.mkdir(mode=0o700, exist_ok=True)
    with memory_file(request["input"]) as stdin:
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


def _confine(nofile: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    most = nofile if hard == resource.RLIM_INFINITY else min(nofile, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    die_with_parent()


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
        left = deadline - now_s()
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
    _await_exit(waiting, program, now_s() + TERM_GRACE_S)


def _drain(waiting: selectors.BaseSelector, streams: list[IO[bytes]]) -> None:
    until = now_s() + DRAIN_S
    for key in list(waiting.get_map().values()):
        if key.data is None:
            waiting.unregister(key.fileobj)
            os.close(key.fd)
    while waiting.get_map() and now_s() < until and _read_ready(waiting, until - now_s()):
        pass
    for stream in streams:
        stream.close()


def _verdict(
    exit_code: int | None, in_time: bool, left: list[int] | None, out: Tail, err: Tail
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
    if left is not None:
        detail = f"NOT proved ended, {count(len(left), 'process')} left, e.g. {left[:5]}; {detail}"
    done = in_time and exit_code == 0 and left is None
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
    fields = stat(pid)
    return {"pid": pid, "start_ticks": int(fields[19]) if fields else 0}


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


if __name__ == "__main__":
    sys.exit(main())
