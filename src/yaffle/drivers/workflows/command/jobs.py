"""Job directories: what survives of a running program when the engine does not.

One directory per operation id, with `lock`, `started.json`, `result.json`, `output.json`, `work/`.
The runner holds the lock for as long as it lives, so that liveness is the kernel's word and not a
pid that may be somebody else's by now:

    result.json            the program ended; it says how
    lock held              the runner lives: running
    lock free, no started  nothing was ever started; the operation may be submitted (again)
    lock free, started     the runner was killed: what the program did is unknown
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from yaffle.integrations.disk import try_room
from yaffle.integrations.http import one_line
from yaffle.model.ids import OperationId
from yaffle.model.operations import Progress, ProgressState

MARKER: Final = "YAFFLE_JOB"
"""Job directory, in the environment of whatever a job starts: how left-overs of a killed runner are
found. Not the operation id: another state directory may know the same one."""
KEPT_JOBS: Final = 200
_RUNNER: Final = Path(__file__).with_name("runner.py")
_SAFE_NAME: Final = re.compile(r"[A-Za-z0-9_:-][A-Za-z0-9_.:-]{0,127}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Jobs:
    """All job directories below `root`; every method blocks on the disk, call it in a thread."""

    root: Path

    def look(self, operation_id: OperationId) -> Progress:
        """Return the progress of a job, by its directory alone."""
        job = self._job(operation_id)
        ended = _result(job)
        if ended is not None:
            return ended
        try:
            lock = os.open(job / "lock", os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return Progress(state=ProgressState.ABSENT, detail="no such job on this machine")
        with _closing(lock):
            if not _try_lock(lock, fcntl.LOCK_SH):
                return Progress(state=ProgressState.RUNNING, detail="the program is running")
            return _look_at_quiet(job)

    def launch(self, operation_id: OperationId, request: dict[str, object], wait_s: float) -> None:
        """Start the runner, unless this operation was started before; raises OSError."""
        job = self._job(operation_id)
        job.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(job / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with _closing(lock):
            if not _try_lock(lock, fcntl.LOCK_EX) or (job / "started.json").exists():
                return
            # A program whose end cannot be written down is not started.
            try_room(job)
            _sync_folder(self.root)
            _start_runner(job, lock, request, wait_s)

    def prune(self) -> None:
        """Forget the oldest jobs that have ended; one whose runner lives is never touched."""
        with contextlib.suppress(FileNotFoundError):
            jobs = sorted(self.root.iterdir(), key=_age)
            for job in jobs[:-KEPT_JOBS]:
                if _idle(job):
                    shutil.rmtree(job, ignore_errors=True)

    def _job(self, operation_id: OperationId) -> Path:
        if _SAFE_NAME.fullmatch(operation_id):
            return self.root / operation_id
        return self.root / hashlib.sha256(operation_id.encode()).hexdigest()


def _look_at_quiet(job: Path) -> Progress:
    """The lock was free: decide again, since the runner may have ended in between."""
    ended = _result(job)
    if ended is not None:
        return ended
    if not (job / "started.json").exists():
        return Progress(state=ProgressState.ABSENT, detail="the program was never started")
    left = kill_marked(job)
    detail = "the runner was killed: what the program did is unknown"
    if left:
        detail += f"; {left} left-over processes killed"
    _settle(job, detail)
    return Progress(state=ProgressState.FAILED, detail=detail)


def kill_marked(job: Path) -> int:
    """Kill every process that bears the job's mark; return how many there were."""
    killed = 0
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARKER) == str(job):
                process.send_signal(signal.SIGKILL)
                killed += 1
        except (psutil.Error, OSError):
            continue
    return killed


def _start_runner(job: Path, lock: int, request: dict[str, object], wait_s: float) -> None:
    """Hand the request over on stdin; returns once the runner has detached itself."""
    argv = [sys.executable, "-I", "-S", "-B", str(_RUNNER), str(job), str(lock)]
    with subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={"LANG": "C.UTF-8"},
        pass_fds=(lock,),
        start_new_session=True,
    ) as starter:
        try:
            starter.communicate(json.dumps(request).encode(), timeout=wait_s)
        except subprocess.TimeoutExpired:
            # Whether it had detached by then is what the lock will tell.
            starter.kill()


def _result(job: Path) -> Progress | None:
    try:
        found = json.loads((job / "result.json").read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        return Progress(state=ProgressState.FAILED, detail=f"result.json is damaged: {error}")
    done = isinstance(found, dict) and found.get("state") == "done"
    detail = one_line(str(found.get("detail", ""))) if isinstance(found, dict) else "damaged"
    if isinstance(found, dict) and found.get("state") == "not begun":
        return Progress.not_begun(detail)
    return Progress(state=ProgressState.DONE if done else ProgressState.FAILED, detail=detail)


def _settle(job: Path, detail: str) -> None:
    """Write the result that the killed runner could not, so that the answer stays the same."""
    scratch = job / "result.lost"
    scratch.write_text(json.dumps({"state": "failed", "detail": detail}), encoding="utf-8")
    scratch.replace(job / "result.json")


def _idle(job: Path) -> bool:
    try:
        lock = os.open(job / "lock", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    with _closing(lock):
        return _try_lock(lock, fcntl.LOCK_EX)


def _try_lock(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _age(job: Path) -> float:
    try:
        return job.stat().st_mtime
    except OSError:
        return 0.0


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    with _closing(fd):
        os.fsync(fd)


@contextlib.contextmanager
def _closing(fd: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(fd)
