"""The lab's processes, known by number *and* time of birth, so that no stranger is ever killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

from lab.openstack import launch
from lab.openstack.errors import LabError, last_lines

MARK: Final = "YAFFLE_LAB"
"""Environment variable of everything that the lab starts; its value is the state folder."""
STOP_S: Final = 10.0
STILL_S: Final = 60.0
KILL_S: Final = 60.0
"""A busy machine may be writing what a process still owes the disk."""
POLL_S: Final = 0.05
CLEAR_LOOKS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One process that the lab runs: how to start it and how to know that it answers."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    answers: str = ""
    """`tcp:PORT` or an http URL that answers, whatever it says; empty: nothing to ask."""
    account: str = ""
    """Whom it runs as when we are root, and it refuses to be."""
    stop_signal: signal.Signals = signal.SIGTERM
    log: Path | None = None
    """Where its program writes, when not to the process's own log."""


class Processes:
    """Those of one lab."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._run = state / "run"
        self._log = state / "log"

    def log_of(self, name: str) -> Path:
        """Return where a process's output goes."""
        return self._log / f"{name}.out"

    def names(self) -> list[str]:
        """Return the names that were ever started."""
        return sorted(path.stem for path in self._run.glob("*.json"))

    def start(self, service: Service) -> None:
        """Start it, unless it runs already."""
        if self.alive(service.name):
            return
        record = self._run / f"{service.name}.json"
        done = subprocess.run(
            [
                sys.executable, "-I", "-S", launch.__file__,
                str(record), str(self.log_of(service.name)), service.account, *service.command,
            ],
            env=self.environment(service.env), capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise LabError(f"{service.name} cannot be started: {done.stderr.strip()}")

    def environment(self, more: Mapping[str, str]) -> dict[str, str]:
        """Return a small environment: what the caller's shell has for clouds or proxies stays out."""
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self._state),
            "LANG": "C.UTF-8",
            "PYTHONWARNINGS": "ignore",
            MARK: str(self._state),
            **more,
        }

    def find(self, name: str) -> psutil.Process | None:
        """Return the process of that name if it is still the one that was started."""
        try:
            record = json.loads((self._run / f"{name}.json").read_text())
            if launch.ticks_of(record["pid"]) != record["ticks"]:
                return None
            process = psutil.Process(record["pid"])
            return None if process.status() == psutil.STATUS_ZOMBIE else process
        except (OSError, psutil.NoSuchProcess):
            return None

    def alive(self, name: str) -> bool:
        """Say whether it runs."""
        return self.find(name) is not None

    def family(self, name: str) -> list[psutil.Process]:
        """Return a process and all below it, those that left for init included; the oldest first."""
        main = self.find(name)
        if main is None:
            return []
        found = {main.pid: main}
        with contextlib.suppress(psutil.NoSuchProcess):
            found |= {child.pid: child for child in main.children(recursive=True)}
        # A session's number is given to nobody else while its leader lives.
        for process in psutil.process_iter():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if process.pid not in found and os.getsid(process.pid) == main.pid:
                    found[process.pid] = process
        return list(found.values())

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a process and all below it."""
        family = self.family(name)
        if not family:
            raise LabError(f"{name} does not run")
        _send(family, number)

    def freeze(self, name: str) -> None:
        """Let it hang: what is connected stays connected, and nothing answers; returns when it does."""
        told = set[psutil.Process]()
        # Who was begun while we looked was not told: but who stands still begins nobody.
        while new := set(self.family(name)) - told:
            _send(list(new), signal.SIGSTOP)
            # A busy machine takes its time until the last thread has noticed.
            _until(list(new), _still, STILL_S, "told to stand still, and still at work")
            told |= new
        if not told:
            raise LabError(f"{name} does not run")

    def thaw(self, name: str) -> None:
        """Let it go on."""
        self.signal(name, signal.SIGCONT)

    def kill(self, *names: str) -> None:
        """End them as a power cut would, and wait until they are gone."""
        families = [process for name in names for process in self.family(name)]
        _send(families, signal.SIGKILL)
        _gone(families, KILL_S)
        for name in names:
            (self._run / f"{name}.json").unlink(missing_ok=True)

    def stop(self, services: Iterable[Service], within_s: float = STOP_S) -> None:
        """End them in order, all at once; kill who has not ended in time, and who is left behind."""
        services, families = list(services), list[psutil.Process]()
        for service in services:
            main = self.find(service.name)
            if main is not None:
                family = self.family(service.name)
                families += family
                # Who is frozen cannot hear.
                _send(family, signal.SIGCONT)
                _send([main], service.stop_signal)
        end_s = time.monotonic() + within_s
        while any(self.alive(s.name) for s in services) and time.monotonic() < end_s:
            time.sleep(POLL_S)
        self.kill(*(service.name for service in services))
        # Cinder's waits for its child no longer than its own grace.
        _send(families, signal.SIGKILL)

    def kill_all(self) -> int:
        """Kill everything of this lab, also what no record knows; return how many there were."""
        killed, clear = 0, 0
        self.kill(*self.names())
        # Who is in the middle of an exec carries no mark at that moment, so one clear look is not enough.
        while clear < CLEAR_LOOKS:
            strays = self.strays()
            killed += len(strays)
            _send(strays, signal.SIGKILL)
            _gone(strays, KILL_S)
            clear = 0 if strays else clear + 1
            time.sleep(POLL_S)
        return killed

    def strays(self) -> list[psutil.Process]:
        """Return the processes that carry this lab's mark and are not ourselves."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.pid != os.getpid() and _lives(process) and self._ours(process):
                    found.append(process)
        return found

    def _ours(self, process: psutil.Process) -> bool:
        """Who gives itself a new title writes over its environment, but still speaks into our log."""
        if process.environ().get(MARK) == str(self._state):
            return True
        speaks_into = str(Path(f"/proc/{process.pid}/fd/1").readlink())
        log = Path(speaks_into.removesuffix(" (deleted)"))
        return log.parent == self._log and log.suffix == ".out"

    def death_of(self, service: Service) -> LabError:
        """Say that a process died, with its last words."""
        logs = [path for path in (self.log_of(service.name), service.log) if path is not None]
        stories = "\n".join(f"  {log}:\n{last_lines(log)}" for log in logs if log.exists())
        return LabError(f"{service.name} has died. Its last words:\n{stories}")


def _send(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        # psutil looks whether the number was given to another process in the meantime.
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def _gone(processes: Sequence[psutil.Process], within_s: float) -> None:
    _until(processes, lambda process: not _lives(process), within_s, "killed, and still there")


def _until(
    processes: Sequence[psutil.Process],
    true: Callable[[psutil.Process], bool],
    within_s: float,
    otherwise: str,
) -> None:
    end_s = time.monotonic() + within_s
    while late := [process for process in processes if not true(process)]:
        if time.monotonic() > end_s:
            numbers = ", ".join(str(process.pid) for process in late)
            raise LabError(f"{otherwise} after {within_s:g} s: {numbers}")
        time.sleep(POLL_S)


def _still(process: psutil.Process) -> bool:
    """Whether each thread of a process is stopped, or has ended."""
    with contextlib.suppress(OSError):
        threads = Path(f"/proc/{process.pid}/task").glob("*/stat")
        return all(t.read_text().rpartition(")")[2].split()[0] in "TtZX" for t in threads)
    # A thread, or all of them, ended in this moment: whoever is there is asked again.
    return not _lives(process)


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
