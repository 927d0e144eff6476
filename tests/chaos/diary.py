"""What web nodes wrote of themselves, and which of them run: evidence that no engine can change."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Life:
    """One stretch of a node's diary: a process from its start to its last beat."""

    pid: int
    start_us: int
    last_us: int
    crashed: bool = False


@dataclass(frozen=True, slots=True)
class Made:
    """One start of a node's process, and the operation that asked for it."""

    name: str
    pid: int
    at_us: int
    operation: str


class Diaries:
    """The folder that all web nodes of a test write to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def lives(self, name: str) -> list[Life]:
        """Return the lives of a node, oldest first."""
        found: dict[int, Life] = {}
        path = self.folder / f"{name}.diary"
        for line in path.read_text().splitlines() if path.exists() else ():
            word, pid_text, at_text = line.split()
            pid, at_us = int(pid_text), int(at_text)
            before = found.get(pid)
            if word == "start":
                found[pid] = Life(pid, at_us, at_us)
            elif before is not None:
                found[pid] = Life(pid, before.start_us, at_us, word == "crash")
        return sorted(found.values(), key=lambda one: one.start_us)

    def made(self) -> list[Made]:
        """Return every start of every node, oldest first."""
        found = []
        for path in self.folder.glob("*.made"):
            for line in path.read_text().splitlines():
                pid, at_us, operation = line.split()
                found.append(Made(path.stem, int(pid), int(at_us), operation))
        return sorted(found, key=lambda one: one.at_us)

    def violations(self) -> list[str]:
        """Return every line that says that two copies ran at once."""
        lines = [
            f"{path.stem}: {line}"
            for path in sorted(self.folder.glob("*.diary"))
            for line in path.read_text().splitlines()
            if line.startswith("violation")
        ]
        for path in self.folder.glob("*.diary"):
            lines += [
                f"{path.stem}: pid {a.pid} beats after pid {b.pid} has started"
                for a, b in itertools.pairwise(self.lives(path.stem))
                if a.last_us > b.start_us
            ]
        return lines

    def manner(self, name: str, *lines: str) -> None:
        """Say how a node behaves from its next start on."""
        (self.folder / f"{name}.crashes").unlink(missing_ok=True)
        (self.folder / f"{name}.manner").write_text("\n".join(lines))

    def signal(self, name: str, number: int) -> int | None:
        """Send a signal to the node's living process; return its pid, None when there is none."""
        lives = self.lives(name)
        if not lives:
            return None
        pid = lives[-1].pid
        with contextlib.suppress(ProcessLookupError), opened(pid) as handle:
            # The handle pins the process: by now its number may belong to another test's.
            if self.processes(pid):
                signal.pidfd_send_signal(handle, number)
                return pid
        return None

    def processes(self, only: int | None = None) -> Mapping[int, str]:
        """Return pid and name of every living process that is a node of this folder."""
        needle = str(self.folder).encode()
        found = {}
        entries = Path("/proc").iterdir() if only is None else [Path(f"/proc/{only}")]
        for entry in entries:
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if needle in words and is_alive(int(entry.name)):
                    found[int(entry.name)] = words[words.index(needle) - 1].decode()
        return found

    def running(self, name: str) -> bool:
        """Whether a process of that node runs, and is not stopped."""
        lives = self.lives(name)
        return bool(lives) and state_of(lives[-1].pid) in "RSDI"


@contextlib.contextmanager
def opened(pid: int) -> Iterator[int]:
    """Yield a handle of that process; raises ProcessLookupError where there is none."""
    handle = os.pidfd_open(pid)
    try:
        yield handle
    finally:
        os.close(handle)


def state_of(pid: int) -> str:
    """Return the kernel's word for a process: R S D T Z X …; `X` where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def is_alive(pid: int) -> bool:
    """Whether that process can still act; a zombie cannot."""
    return state_of(pid) not in {"Z", "X"}
