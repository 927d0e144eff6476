"""Everything read from /proc and /sys: who lives, since when, in which session, with which markers.

A process is named by pid *and* start time *and* boot: a pid alone is recycled (`Identity`).
"""

from __future__ import annotations

import os
import re
import shlex
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Final

STOPPED: Final = frozenset("Tt")
DEAD: Final = frozenset("ZXx")
_CGROUPS: Final = Path("/sys/fs/cgroup")
_CHUNK: Final = 65_536


class ProcUnreadable(Exception):
    """/proc cannot be trusted: not mounted, or another process namespace's."""


class ProcHidden(ProcUnreadable):
    """Raised for a process that is there, and is not ours to look at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The identity of a process: pid, start time and boot, so that a recycled pid is another."""

    pid: int
    start: int
    """Field 22 of /proc/<pid>/stat: clock ticks since boot."""
    boot: str
    """/proc/sys/kernel/random/boot_id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stat:
    """The fields of /proc/<pid>/stat that are used."""

    pid: int
    command: str
    state: str
    parent: int
    group: int
    session: int
    threads: int
    start: int
    status: int = 0
    """Of one that has ended, as `waitpid` tells it; 0 also where we may not know."""

    @property
    def alive(self) -> bool:
        """Whether it can still act.

        The main thread of a process may end before the others: the process then shows as a zombie
        and works on, with more than one thread.
        """
        return self.state not in DEAD or self.threads > 1

    @property
    def ending(self) -> str:
        """Return `, killed by SIGSEGV` or `, exit code 3`; empty where it ended well or nobody says."""
        number = self.status & 0x7F
        if number:
            name = next((s.name for s in signal.Signals if s == number), f"signal {number}")
            return f", killed by {name}"
        code = self.status >> 8 & 0xFF
        return f", exit code {code}" if code else ""


def parse_stat(text: str) -> Stat:
    """Parse one line; the command, in parentheses, may itself hold spaces and parentheses."""
    head, _, tail = text.rpartition(")")
    pid, _, command = head.partition(" (")
    field = tail.split()
    return Stat(
        pid=int(pid),
        command=command,
        state=field[0],
        parent=int(field[1]),
        group=int(field[2]),
        session=int(field[3]),
        threads=int(field[17]),
        start=int(field[19]),
        status=int(field[49]) if len(field) > 49 else 0,
    )


class Procfs:
    """Reads one /proc. `None` means "no such process"; errors that hide the truth are raised."""

    def __init__(self, root: Path = Path("/proc")) -> None:
        self._root = root

    def check(self) -> None:
        """Raise ProcUnreadable unless this /proc shows us, under our own pid."""
        try:
            seen = (self._root / "self").readlink().name
        except OSError as error:
            raise ProcUnreadable(f"cannot read {self._root}: {error.strerror}") from error
        if seen != str(os.getpid()):
            raise ProcUnreadable(f"{self._root} belongs to another process namespace")

    def boot(self) -> str:
        """Return the id of this boot of the machine."""
        try:
            return (self._root / "sys/kernel/random/boot_id").read_text().strip()
        except OSError as error:
            raise ProcUnreadable(f"cannot read the boot id: {error.strerror}") from error

    def pids(self) -> list[int]:
        """Return every pid in sight, ascending."""
        self.check()
        with os.scandir(self._root) as entries:
            return sorted(int(entry.name) for entry in entries if entry.name.isdigit())

    def stat(self, pid: int) -> Stat | None:
        """Return what the kernel says of `pid`, or None when there is no such process."""
        try:
            return parse_stat(self._bytes(pid, "stat").decode("utf-8", "replace"))
        except (FileNotFoundError, ProcessLookupError):
            if _hidden(pid):
                raise ProcHidden(f"pid {pid} is hidden from us") from None
            return None
        except PermissionError as error:
            raise ProcHidden(f"pid {pid} is hidden from us: {error.strerror}") from error
        except (OSError, ValueError, IndexError) as error:
            raise ProcUnreadable(f"cannot read the state of pid {pid}: {error}") from error

    def find(self, identity: Identity) -> Stat | None:
        """Return that very process, zombie or not; None when its pid is free or recycled."""
        stat = self.stat(identity.pid)
        if stat is None or stat.start != identity.start or self.boot() != identity.boot:
            return None
        return stat

    def environment(self, stat: Stat) -> bytes | None:
        """Return the environment (NUL separated); None when we may not read it.

        Raises ProcUnreadable where it could not be read: out of descriptors we know of no process.
        """
        pid = stat.pid
        try:
            found = self._environ(pid, "environ")
            if not found and (stat.state in DEAD or stat.threads > 1):
                # A main thread that has ended shows nothing; its other threads still do.
                return self._threads_environment(pid)
            return found
        except (FileNotFoundError, ProcessLookupError):
            return b""
        except PermissionError:
            return None
        except OSError as error:
            raise ProcUnreadable(f"cannot read the marks of pid {pid}: {error}") from error

    def _threads_environment(self, pid: int) -> bytes:
        threads = (thread.name for thread in (self._root / str(pid) / "task").iterdir())
        found = (self._environ(pid, f"task/{name}/environ") for name in threads)
        return next((data for data in found if data), b"")

    def _environ(self, pid: int, place: str) -> bytes:
        try:
            return self._bytes(pid, place)
        except (FileNotFoundError, ProcessLookupError):
            return b""

    def _bytes(self, pid: int, place: str) -> bytes:
        """Read one small file; a pass reads two for each process, so that every call counts."""
        descriptor = os.open(f"{self._root}/{pid}/{place}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            data = b""
            while more := os.read(descriptor, _CHUNK):
                data += more
            return data
        finally:
            os.close(descriptor)

    def command_line(self, pid: int) -> str:
        """Return what the process executes, as one line; empty when it is gone or hidden."""
        try:
            words = (self._root / str(pid) / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        except OSError:
            return ""
        return shlex.join(w.decode("utf-8", "replace") for w in words if w)

    def uptime_s(self) -> float:
        """Return the seconds since boot; raises ProcUnreadable."""
        try:
            return float((self._root / "uptime").read_text().split()[0])
        except (OSError, ValueError, IndexError) as error:
            raise ProcUnreadable(f"cannot read the time since boot: {error}") from error

    def writes_into(self, pid: int, folder: Path) -> bool:
        """Whether its standard output or error is a file below `folder`."""
        for number in ("1", "2"):
            try:
                if (self._root / str(pid) / "fd" / number).readlink().is_relative_to(folder):
                    return True
            except OSError:
                continue
        return False

    def frozen(self, pid: int) -> bool:
        """Whether its control group is frozen; False where nobody says so."""
        try:
            lines = (self._root / str(pid) / "cgroup").read_text().splitlines()
        except OSError:
            return False
        return any(_group_frozen(*line.split(":", 2)[1:]) for line in lines if line.count(":") >= 2)


def _hidden(pid: int) -> bool:
    """Whether a process is there that /proc does not show (mounted with hidepid)."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return False


def _group_frozen(controllers: str, path: str) -> bool:
    relative = path.lstrip("/")
    if controllers == "":
        roots = (_CGROUPS, _CGROUPS / "unified")
        return any(_says(root / relative / "cgroup.events", r"^frozen 1$") for root in roots)
    if "freezer" in controllers.split(","):
        # FREEZING counts: what is half frozen serves nobody.
        return _says(_CGROUPS / "freezer" / relative / "freezer.state", r"^(FROZEN|FREEZING)$")
    return False


def _says(path: Path, pattern: str) -> bool:
    try:
        return re.search(pattern, path.read_text(), re.MULTILINE) is not None
    except OSError:
        return False
