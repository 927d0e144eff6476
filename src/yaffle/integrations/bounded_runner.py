"""Runs one program and lets nothing of it outlive its time, its engine or its engine's freeze.

Stdlib only: `python -I -S bounded_runner.py`. The first line of stdin is the request (JSON: `program`,
`input`, `timeout_s`, `max_output`); the pipe then stays open, and its end means that the engine has died
or given up. One line of JSON on stdout says how it went: `exit`, `out`, `err`, `fault`. Nothing secret
is in its arguments or its environment.

A late "off" of a fence agent would hit whoever runs on the host by then: a successor may have fenced it,
healed its nodes and switched it on again. Hence everything that was started is killed before this ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import selectors
import subprocess
import sys
from pathlib import Path
from typing import IO, Any, Final

# Isolated as it is run, it finds our own package only so; the standard library comes first.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from yaffle.integrations.process_tree import (
    adopt_orphans,
    die_with_parent,
    end_all,
    memory_file,
    now_s,
    stat,
)

ENVIRONMENT: Final = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C",
    "LC_ALL": "C",
    "HOME": "/",
}
KILL_PROOF_S: Final = 2.0
FREEZE_S: Final = 0.5


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
    """Read the request, run the program, tell."""
    # Not through a buffer: what is left in the pipe, its end above all, is for `select`.
    request: dict[str, Any] = json.loads(_line(0))
    adopt_orphans()
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
    """Run the program to its end, or end it."""
    out, err = Kept(int(request["max_output"])), Kept(int(request["max_output"]))
    deadline = _born() + float(request["timeout_s"])
    try:
        program = _start(request)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return {"exit": None, "out": "", "err": "", "fault": f"could not be started: {error}"}
    with selectors.DefaultSelector() as waiting:
        streams = _register(waiting, program, out, err)
        fault = _await_end(waiting, program, deadline)
        code = program.poll()
        ended, left = end_all(program, freeze_s=FREEZE_S, proof_s=KILL_PROOF_S)
        _drain(waiting, streams)
    if not ended:
        many = max(1, len(left))
        fault = f"{fault}; {many} of its processes could not be killed".removeprefix("; ")
    return {"exit": code, "out": out.text(), "err": err.text(), "fault": fault}


def _start(request: dict[str, Any]) -> subprocess.Popen[bytes]:
    with memory_file(request["input"]) as stdin:
        return subprocess.Popen(
            [request["program"]],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            env=ENVIRONMENT,
            start_new_session=True,
            preexec_fn=_confine,  # noqa: PLW1509 - one thread only
        )


def _confine() -> None:
    # A core file would hold the password.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    die_with_parent()


def _register(
    waiting: selectors.BaseSelector, program: subprocess.Popen[bytes], out: Kept, err: Kept
) -> list[IO[bytes]]:
    streams: list[IO[bytes]] = []
    for stream, kept in ((program.stdout, out), (program.stderr, err)):
        if stream is not None:
            os.set_blocking(stream.fileno(), False)
            waiting.register(stream, selectors.EVENT_READ, kept)
            streams.append(stream)
    waiting.register(os.pidfd_open(program.pid), selectors.EVENT_READ, None)
    waiting.register(0, selectors.EVENT_READ, "engine")
    return streams


def _await_end(
    waiting: selectors.BaseSelector, program: subprocess.Popen[bytes], deadline: float
) -> str:
    """Read what the program writes until it ends; else return why it was not waited for any longer."""
    while program.poll() is None:
        left = deadline - now_s()
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


def _born() -> float:
    """Return when this process began: its engine's time runs since then, not since we are ready."""
    ticks = int(stat(os.getpid())[19])
    return min(now_s(), ticks / os.sysconf("SC_CLK_TCK"))


if __name__ == "__main__":
    sys.exit(main())
