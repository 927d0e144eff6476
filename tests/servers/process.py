"""A real server process of the tests' own: private folder, free loopback port, gone when we are."""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
from tests.waiting import wait_for

START_S = 120.0
STOP_S = 60.0


# Below those that the kernel gives to whoever connects: it would give one away before its server has
# come to listen. Outside those of Yaffle's nodes, of fleets (30000) and of labs (10000), too. Processes
# that test side by side begin elsewhere, and none gives one out twice.
_FREE = [port for port in range(3_000, 10_000) if port != 8777]
_BEGIN = os.getpid() * 1009 % len(_FREE)
_PORTS = itertools.cycle([*_FREE[_BEGIN:], *_FREE[:_BEGIN]])


def free_port() -> int:
    """Return a port that nobody listens on now, and that nobody is given soon."""
    for port in _PORTS:
        with (
            contextlib.suppress(OSError),
            socket.socket() as sock,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams,
        ):
            sock.bind(("127.0.0.1", port))
            datagrams.bind(("127.0.0.1", port))
            return port
    raise AssertionError


def stands_still(pid: int) -> bool:
    """Whether each thread of a process is stopped, or gone: a busy machine takes its time for that."""
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            if (task / "stat").read_text().rpartition(")")[2].split()[0] not in "TtZX":
                return False
    return True


class StillThere(AssertionError):
    """A server that was told to end has not; what keeps it is told."""


class Process:
    """One server: start, stop, kill, freeze and thaw it as often as a test likes."""

    account = ""
    """Whom it runs as when we are root, which such servers refuse to be."""

    def __init__(self) -> None:
        # Not below pytest's folder: only its owner may enter that.
        self.folder = Path(tempfile.mkdtemp(prefix="yaffle-server-"))
        self.port = free_port()
        self._running: subprocess.Popen[bytes] | None = None
        if self._other:
            found = pwd.getpwnam(self.account)
            os.chown(self.folder, found.pw_uid, found.pw_gid)

    @property
    def _other(self) -> bool:
        return os.geteuid() == 0 and bool(self.account)

    @property
    def pid(self) -> int:
        """Of the server's main process."""
        assert self._running is not None
        return self._running.pid

    def command(self) -> Sequence[str]:
        """Return what runs it in the foreground."""
        raise NotImplementedError

    def answers(self) -> bool:
        """Say whether it can be worked with."""
        raise NotImplementedError

    def as_owner(self, command: Sequence[str]) -> list[str]:
        """Return `command` so that it runs as the server's account and ends when we do.

        What it keeps for a while is in its own folder: a MariaDB that starts removes all temporary
        tables from the folder for them, those of the others as well.
        """
        prefix = ["env", f"TMPDIR={self.folder}", "setpriv", "--pdeathsig", "KILL"]
        if self._other:
            prefix += [f"--reuid={self.account}", f"--regid={self.account}", "--clear-groups"]
        return [*prefix, *command]

    def run(self, *command: str) -> None:
        """Run a tool of the server's to its end."""
        done = subprocess.run(
            self.as_owner(command), capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, f"{command[0]}: {done.stdout}{done.stderr}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        with (self.folder / "log").open("ab") as log:
            self._running = subprocess.Popen(
                self.as_owner(self.command()),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
            )
        end_s = time.monotonic() + START_S
        while not self.answers():
            assert self._running.poll() is None, (self.folder / "log").read_text()[-3000:]
            assert time.monotonic() < end_s, (self.folder / "log").read_text()[-3000:]
            time.sleep(0.05)

    def stop(self) -> None:
        """End it in order, connections or not."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """End it as a power cut would, all its processes at once."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop it and start it on the same port."""
        self.stop()
        self.start()

    def freeze(self) -> None:
        """Let it hang: connections stay open and nothing answers; it stands still when this returns."""

        def all_stand_still() -> bool:
            # Again: one may have made a child before it stood still itself.
            self._signal(signal.SIGSTOP)
            main = psutil.Process(self.pid)
            return all(stands_still(p.pid) for p in (main, *main.children(recursive=True)))

        wait_for(all_stand_still)

    def thaw(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        """Send it to all its processes; PostgreSQL's are not of one group."""
        main = psutil.Process(self.pid)
        for process in (main, *main.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def _end(self, number: signal.Signals) -> None:
        running = self._running
        if running is not None and running.poll() is None:
            if number is signal.SIGKILL:
                self._kill(running)
            else:
                running.send_signal(number)
            try:
                running.wait(STOP_S)
            except subprocess.TimeoutExpired:
                raise StillThere(self._story(running.pid)) from None
        self._running = None

    def _story(self, pid: int) -> str:
        """Say what keeps a server that was told to end: its processes, and its last words."""
        processes = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        told = []
        for process in processes:
            with contextlib.suppress(psutil.Error):
                told.append(f"{process.pid} {process.status()} {' '.join(process.cmdline())}")
        words = (self.folder / "log").read_text(errors="replace")[-3000:]
        return "\n".join([f"still there after {STOP_S:g} s:", *told, words])

    def _kill(self, running: subprocess.Popen[bytes]) -> None:
        """Kill it with its children: one that lives on would keep the next one from starting."""
        # Held first, it makes no further child while they are counted.
        running.send_signal(signal.SIGSTOP)
        children = psutil.Process(running.pid).children(recursive=True)
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        running.kill()
        psutil.wait_procs(children, timeout=STOP_S)

    def remove(self) -> None:
        """Kill it and leave nothing behind."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
