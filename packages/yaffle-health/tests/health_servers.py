"""Real servers for the tests: written to a directory, started as a process, ended with the test."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from yaffle_health.model import Status
from yaffle_health.reader import Problem, Reading, Target, read

T = TypeVar("T")
BIN = Path(sys.executable).parent
WAIT_S = 60.0

APP = '''
"""A shop whose health follows what it is asked to do."""
import os, signal, time
import yaffle_health

manager = yaffle_health.Manager(description="shop", host="c-1")
yaffle_health.set_default(manager)

@yaffle_health.healthcheck("database", [ConnectionError])
def query(path):
    if path == "/bad":
        raise ConnectionError("mysql://shop:secret@db/ went away")

def app(environ, start_response):
    path = environ["PATH_INFO"]
    try:
        query(path)
        if path == "/block":
            open(f"blocked-{os.getpid()}", "w").close()
            while not os.path.exists("go-on"):
                time.sleep(0.02)
        status = "200 OK"
    except ConnectionError:
        status = "500 Oh"
    start_response(status, [("Content-Type", "text/plain")])
    return [str(os.getpid()).encode()]
'''


def until(ask: Callable[[], T], wanted: Callable[[T], bool], *, wait_s: float = WAIT_S) -> T:
    """Ask again and again until the answer is as wanted; the last answer is in the failure."""
    deadline = time.monotonic() + wait_s
    while True:
        found = ask()
        if wanted(found):
            return found
        assert time.monotonic() < deadline, f"still {found!r}"
        time.sleep(0.05)


# Below those that the kernel gives to whoever connects: it would give one away before its server
# has come to listen. Processes that test side by side begin elsewhere, and none gives one out twice.
_FREE = range(3_000, 10_000)
_BEGIN = os.getpid() * 1009 % len(_FREE)
_PORTS = itertools.cycle([*_FREE[_BEGIN:], *_FREE[:_BEGIN]])


def free_port() -> int:
    """Return a TCP port that was free a moment ago."""
    for port in _PORTS:
        with contextlib.suppress(OSError), socket.socket() as sock:
            sock.bind(("127.0.0.1", port))
            return port
    raise AssertionError


@contextlib.contextmanager
def running(
    arguments: Sequence[str | Path], folder: Path, **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program in a folder; its output goes to `log` there and into a failure's message."""
    places = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(
            [str(a) for a in arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(places), **environment},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield process
        except BaseException:
            print((folder / "log").read_text(errors="replace")[-4000:])
            raise
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the whole session that we began, the frozen included."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(8)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(60)


def children(pid: int) -> set[int]:
    """Return the child processes of a process that are still running."""
    found = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        found |= {int(word) for word in (task / "children").read_text().split()}
    return found


def view(target: Target) -> Reading:
    """Read an endpoint; a test polls, so one answer may take a while and is not the end."""
    return read(target, timeout_s=30)


def workers_in(reading: Reading) -> set[int]:
    """Return the process ids that speak in a gathered view."""
    checks = reading.health.checks if reading.health else ()
    return {int(c.component_id.split("/")[0]) for c in checks if c.component_id}


def statuses(reading: Reading) -> dict[tuple[str, str | None], Status]:
    """Return each check's status by name and component."""
    checks = reading.health.checks if reading.health else ()
    return {(c.name, c.component_id): c.status for c in checks}


def nobody(target: Target) -> bool:
    """Whether nobody listens there."""
    return view(target).problem in {Problem.REFUSED, Problem.MISSING}


def ask(port: int, path: str = "/") -> tuple[int, str]:
    """Ask a web service; return its HTTP status and its body."""
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path, headers={"Connection": "close"})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()
