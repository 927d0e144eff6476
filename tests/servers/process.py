"""A real server process of the tests' own: private folder, free loopback port, gone when we are."""

from __future__ import annotations

import contextlib
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

START_S = 60.0
STOP_S = 30.0


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


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
        """Return `command` so that it runs as the server's account and ends when we do."""
        prefix = ["setpriv", "--pdeathsig", "KILL"]
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
        """Let it hang: connections stay open and nothing answers."""
        self._signal(signal.SIGSTOP)

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
