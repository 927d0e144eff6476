"""How all the workers of a prefork server are, read from the sockets in their directory.

The worst worker counts. One that is gone leaves the view; one that is there and does not answer
fails it, because requests that reach it hang. No worker at all is a failure too, though a process
without items passes: a prefork server without workers serves nobody.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import os
import re
import stat
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from yaffle_health import identity, redact
from yaffle_health.errors import BadOption, UnknownGroup
from yaffle_health.model import Check, Health, Service, Status
from yaffle_health.reader import Problem, Reading, Target, read_all

TIMEOUT_S: Final = 0.5
"""Shorter than the second that Kubernetes gives a probe by default."""
FRESH_S: Final = 0.2
"""How long an answer serves again: a hundred probes a second must not become thousands."""
WORKERS_MAX: Final = 1024
GROUPS_MAX: Final = 16
SOCKET: Final = re.compile(r"([1-9][0-9]{0,9})\.sock")
# The seed's shape has one entry for a name; the draft's tells components apart.
REQUEST: Final = "/health?format=ietf"
WORKERS: Final = "workers"
WORKER: Final = "worker"

_SEVERITY: Final = (Status.PASS, Status.WARN, Status.FAIL)
_GONE: Final = {Problem.REFUSED, Problem.MISSING}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One worker's socket, and what it said; `inode` tells a socket from its successor."""

    pid: int
    path: Path
    inode: int
    reading: Reading


class Workers:
    """The health of the workers whose sockets are in a directory; may be used by every thread."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        expected: int = 0,
        timeout_s: float = TIMEOUT_S,
        description: str | None = None,
        fresh_s: float = FRESH_S,
    ) -> None:
        """`expected` workers there should be: fewer warn, none fail; 0 demands one.

        BadOption if the directory is not absolute, or everybody may put sockets into it.
        """
        self.directory = private(directory)
        if expected < 0:
            raise BadOption("workers", expected, "it may not be negative")
        if not 0 < timeout_s <= 60:
            raise BadOption("timeout", timeout_s, "give seconds, more than 0 and 60 at most")
        self._expected = expected
        self._timeout_s = timeout_s
        self._fresh_s = fresh_s
        self._description = description
        self._service_id = identity.random_id()
        self._last: dict[str | None, tuple[float, Health]] = {}

    def health(self, group: str | None = None) -> Health:
        """Return the worst of all workers, or of one group of their checks; within `timeout_s`.

        Each check's component is its worker's process id. UnknownGroup if no worker knows it.
        """
        last = self._last.get(group)
        if last is not None and time.monotonic() - last[0] < self._fresh_s:
            return last[1]
        asked_at = time.monotonic()
        found = self.read(group)
        health = self._fold(found, group)
        if len(self._last) >= GROUPS_MAX:
            # While no worker is there to say which groups exist, anybody can make them up.
            self._last.clear()
        self._last[group] = (asked_at, health)
        return health

    def read(self, group: str | None = None) -> tuple[Worker, ...]:
        """Ask every worker, all at once; the sockets of those that are gone are removed."""
        sockets = list(self._sockets())
        request = REQUEST if group is None else f"{REQUEST}&group={_quoted(group)}"
        readings = read_all(
            (Target(path=str(path), request=request) for _, path, _ in sockets),
            timeout_s=self._timeout_s,
        )
        workers = [
            Worker(pid=pid, path=path, inode=inode, reading=reading)
            for (pid, path, inode), reading in zip(sockets, readings, strict=True)
        ]
        for gone in workers:
            if gone.reading.problem is Problem.REFUSED:
                _remove(gone)
        return tuple(w for w in workers if w.reading.problem not in _GONE)

    def _sockets(self) -> Iterable[tuple[int, Path, int]]:
        try:
            names = sorted(os.listdir(self.directory))  # noqa: PTH208 - names are all we need
        except OSError:
            return
        found = [(int(m[1]), name) for name in names if (m := SOCKET.fullmatch(name))]
        for pid, name in sorted(found)[:WORKERS_MAX]:
            path = self.directory / name
            with contextlib.suppress(OSError):
                about = path.lstat()
                if stat.S_ISSOCK(about.st_mode):
                    yield pid, path, about.st_ino

    def _fold(self, workers: Sequence[Worker], group: str | None) -> Health:
        strangers = [w for w in workers if w.reading.problem is Problem.NOT_HEALTH]
        if group is not None and workers and len(strangers) == len(workers):
            raise UnknownGroup(group, ())
        now = dt.datetime.now(dt.UTC)
        checks = [self._presence(workers, now)]
        for worker in workers:
            checks += _checks(worker, now)
        spoken = [w.reading.status or Status.FAIL for w in workers]
        return Health(
            status=max([checks[0].status, *spoken], key=_SEVERITY.index),
            service=self._service(workers),
            checks=tuple(sorted(checks, key=lambda c: (c.name, c.component_id or ""))),
        )

    def _presence(self, workers: Sequence[Worker], now: dt.datetime) -> Check:
        """Return the view's own check: are they all there?"""
        here, wanted = len(workers), max(1, self._expected)
        status, output = Status.PASS, None
        if not here:
            status, output = Status.FAIL, f"no worker has a socket in {self.directory}"
        elif here < wanted:
            status, output = Status.WARN, f"{here} of {wanted} workers are there"
        return _check(WORKERS, None, status, now, output)

    def _service(self, workers: Sequence[Worker]) -> Service:
        said = next((w.reading.health.service for w in workers if w.reading.health), None)
        return identity.service(
            service_id=self._service_id,
            description=self._description or (said.description if said else None),
            host=said.host if said else None,
            hostname=said.hostname if said else None,
            release=said.release if said else None,
        )


def private(directory: str | os.PathLike[str]) -> Path:
    """Return the directory as a path; BadOption unless strangers are kept out of it.

    Whoever can put a socket into it can say that everything is well.
    """
    path = Path(directory)
    if not path.is_absolute():
        raise BadOption("directory", str(directory), "give an absolute path")
    try:
        about = path.stat()
    except FileNotFoundError:
        return path
    except OSError as error:
        raise BadOption("directory", str(path), error.strerror or str(error)) from error
    if not stat.S_ISDIR(about.st_mode):
        raise BadOption("directory", str(path), "that is no directory")
    if about.st_mode & stat.S_IWOTH:
        raise BadOption("directory", str(path), "everybody may write to it: use one of your own")
    return path


def _checks(worker: Worker, now: dt.datetime) -> list[Check]:
    """Return a worker's checks under its process id, and one for the worker if it did not answer."""
    reading, pid = worker.reading, str(worker.pid)
    if reading.problem is not None:
        return [_check(WORKER, pid, Status.FAIL, now, f"{reading.problem}: {reading.why}")]
    told = reading.health.checks if reading.health else ()
    checks = [
        dataclasses.replace(c, component_id=f"{pid}/{c.component_id}" if c.component_id else pid)
        for c in told
    ]
    if reading.disagreements:
        output = "; ".join(reading.disagreements)
        status = reading.status if reading.status is Status.FAIL else Status.WARN
        checks.append(_check(WORKER, pid, status, now, output))
    return checks


def _check(
    name: str, component_id: str | None, status: Status, now: dt.datetime, output: str | None
) -> Check:
    return Check(
        name=name,
        component_id=component_id,
        component_type="system",
        status=status,
        last_status=status,
        time=now,
        age_s=0.0,
        output=None if output is None else redact.clean(output),
    )


def _quoted(group: str) -> str:
    import urllib.parse

    return urllib.parse.quote(group, safe="")


def _remove(gone: Worker) -> None:
    """Take away the socket of a worker that nobody listens on, unless it is a new one's by now."""
    with contextlib.suppress(OSError):
        if gone.path.lstat().st_ino == gone.inode:
            gone.path.unlink()
