"""Real `yaffle` processes, started privately, bounded, and certain to be gone after the test."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from tests.waiting import wait_for

from yaffle.cli import main

YAFFLE = (sys.executable, "-P", "-m", "yaffle.cli")
API = "yaffle.cli.serve.api_child"
PAGE = str(Path(__file__).parents[3] / "tests/plain_page.py")


def environment(**more: str) -> dict[str, str]:
    """Return an environment without settings of the machine that runs the tests."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("YAFFLE_", "NOTIFY_"))}
    return {
        **kept,
        "YAFFLE_STATE_DIR": "/proc/none",
        "XDG_CACHE_HOME": "/proc/none",
        "NO_COLOR": "1",
        **more,
    }


@dataclass
class Done:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def run(*words: str, env: Mapping[str, str] | None = None, given: str = "", s: float = 120) -> Done:
    """Run a command to its end."""
    done = subprocess.run(
        [*YAFFLE, *words],
        env=environment(**(env or {})),
        input=given,
        capture_output=True,
        text=True,
        timeout=s,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def run_here(*words: str, env: Mapping[str, str] | None = None, given: str = "") -> Done:
    """As `run`, without the start of a process: the same `main`, the same HTTP, a tenth of the time."""
    out, err = io.StringIO(), io.StringIO()
    before, stdin = dict(os.environ), sys.stdin
    os.environ.clear()
    os.environ.update(environment(**(env or {})))
    sys.stdin = io.TextIOWrapper(io.BytesIO(given.encode()))
    try:
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as end:
            main(words)
    finally:
        sys.stdin = stdin
        os.environ.clear()
        os.environ.update(before)
    return Done(int(end.value.code or 0), out.getvalue(), err.getvalue())


class Running:
    """A command that goes on; its output is read all the time."""

    def __init__(self, *words: str, env: Mapping[str, str] | None = None, **popen: Any) -> None:
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [*YAFFLE, *words],
            env=environment(**(env or {})),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **popen,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def line(self, part: str, *, within_s: float = 120.0) -> str:
        """Wait for a line with `part` in it."""

        def look() -> str | None:
            # Asked before: its last line may come, and its end, while we look.
            alive = self._reader.is_alive()
            found = next((line for line in self.lines if part in line), None)
            assert found or alive, f"ended without {part!r}:\n{self.text}"
            return found

        return str(wait_for(look, within_s=within_s))

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def end(self, *, within_s: float = 60.0) -> int:
        """Wait for the end and return the code."""
        code = self.process.wait(within_s)
        self._reader.join(60)
        # Shown with a test that fails, whatever it fails of.
        print(self.text)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@dataclass
class Server:
    """A `yaffle serve` of its own."""

    state_dir: Path
    flags: tuple[str, ...] = ("--allow-local-process",)
    env: Mapping[str, str] = field(default_factory=dict)
    running: Running | None = None

    def start(self) -> None:
        self.running = Running(
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--state-dir",
            str(self.state_dir),
            *self.flags,
            env=self.env,
        )
        running = self.running

        def card() -> bool:
            assert running.process.poll() is None, running.text
            return self.pid_in_card() == running.process.pid

        wait_for(card, within_s=120)

    def pid_in_card(self) -> int | None:
        try:
            return int(json.loads((self.state_dir / "server.json").read_text())["pid"])
        except (OSError, ValueError):
            return None

    def api(self) -> psutil.Process:
        """Return the process that answers requests at present."""

        def found() -> list[psutil.Process]:
            assert self.running is not None
            children = psutil.Process(self.running.process.pid).children()
            with suppress(psutil.NoSuchProcess):
                return [one for one in children if API in one.cmdline()]
            return []

        (only,) = wait_for(found)
        return only

    def stop(self, number: int = signal.SIGTERM) -> int:
        assert self.running is not None
        self.running.signal(number)
        code = self.running.end()
        self.running = None
        return code

    def cli(self, *words: str, given: str = "", **env: str) -> Done:
        """Run a client command that finds the server by its state directory."""
        return run_here(*words, env={"YAFFLE_STATE_DIR": str(self.state_dir), **env}, given=given)

    def ok(self, *words: str, given: str = "") -> Done:
        """Run a client command that has to succeed, without a word too many."""
        done = self.cli(*words, given=given)
        assert done.code == 0, f"{words}: {done.code}\n{done.out}\n{done.err}"
        return done


def living(mark: str) -> dict[int, str]:
    """Return pid and state of every living process with `mark` in its environment."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            environ = (entry / "environ").read_bytes()
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if mark.encode() in environ and state not in "ZX":
            found[int(entry.name)] = state
    return found


def pages(mark: str) -> dict[str, tuple[int, int]]:
    """Return port and pid of each living page, by its name, as its process was told."""
    found = {}
    for pid in living(mark):
        with suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            if len(words) > 3 and words[-2].isdecimal():
                found[words[-3]] = (int(words[-2]), pid)
    return found


def serving(mark: str) -> set[int]:
    """Return the pids of the pages that answer: one that has but started may still fail to listen."""
    found = set()
    for port, pid in pages(mark).values():
        with suppress(httpx.HTTPError):
            said = httpx.get(f"http://127.0.0.1:{port}/health", timeout=10).headers.get("X-Pid")
            found |= {pid} if said == str(pid) else set()
    return found


@contextmanager
def swept(mark: str) -> Iterator[None]:
    """Kill whatever carries `mark` once the test is over."""
    try:
        yield
    finally:

        def gone() -> bool:
            for pid in living(mark):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            return not living(mark)

        wait_for(gone)


def profile_document(mark: str) -> str:
    """Return a profile of small web servers that carry `mark`."""
    return json.dumps(
        {
            "type": "yaffle.local.process",
            "version": "1.0",
            "properties": {
                "command": [sys.executable, "-I", "-S", PAGE, "{nodename}", "{port}"],
                "env": {"TEST_MARK": mark},
                "stop_timeout": 20,
            },
        }
    )


STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(9999)"


def stubborn_document(mark: str) -> str:
    """Return a profile of processes that go when they are killed, which nobody does but `let_go`."""
    document = json.loads(profile_document(mark))
    command = [sys.executable, "-I", "-S", "-c", STUBBORN]
    document["properties"] |= {"command": command, "stop_timeout": 600}
    return json.dumps(document)


def deaf(mark: str) -> bool:
    """Whether all of them, and there are some, have come to the line that makes them stubborn."""
    bit = 1 << (signal.SIGTERM - 1)
    found = [Path(f"/proc/{pid}/status").read_text() for pid in living(mark)]
    return bool(found) and all(
        int(text.partition("SigIgn:")[2].split()[0], 16) & bit for text in found
    )


def let_go(mark: str) -> None:
    """Kill those that are asked to go and do not; they carry `mark`."""
    for pid in living(mark):
        # One that had not come to be stubborn may go by itself, just now.
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


POLICY = """\
type: senlin.policy.health
version: "1.3"
properties:
  detection:
    interval: 1
    node_update_timeout: 5
    rise: 1
    fall: 2
    detection_modes:
      - type: NODE_STATUS_POLLING
  recovery:
    fencing: [COMPUTE]
    actions:
      - {name: RECREATE, timeout: 120}
    limits: {max_unhealthy: 2, max_in_flight: 2}
    retry: {attempts: 5, backoff: 3, max_backoff: 30, stable_after: 30}
"""
