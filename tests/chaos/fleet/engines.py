"""Real `yaffle engine` and `yaffle api` processes, and what can be done to one of them from outside.

What was done to an engine, and since when, is kept as its conditions: the judge goes by them when it
asks who could have watched at a time, and never by what an engine says of itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from tests.chaos.fleet.evidence import CUT_OFF, State
from tests.chaos.fleet.proxy import Mode, Network, Proxy
from tests.chaos.fleet.space import Space
from tests.chaos.lab import now_us
from tests.servers import clock
from tests.servers.process import stands_still
from tests.waiting import wait_for

START_S = 120.0
END_S = 120.0
WAIT_S = 60.0


def environment(**more: str) -> dict[str, str]:
    """Return the environment without any setting of this machine."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("YAFFLE_", "OS_", "NOTIFY_"))}
    return {**kept, "PYTHONUNBUFFERED": "1", **more}


@dataclass(eq=False)
class Program:
    """One process of the program: `role` is `engine` or `api`."""

    name: str
    role: str
    root: Path
    settings: Mapping[str, object]
    source: Path | None = None
    """A tree of sources to run instead of the installed one: a planted bug."""
    space: Space | None = None
    steppable: bool = False
    """Whether its wall clock can be stepped."""
    process: subprocess.Popen[bytes] | None = None
    falls: dict[int, str] = field(default_factory=dict)
    """Pid → how a process ended though nobody asked it to."""
    _mark: int = 0

    @property
    def log_path(self) -> Path:
        return self.root / f"{self.name}.log"

    @property
    def offset_path(self) -> Path:
        return self.root / f"{self.name}.offset"

    def log(self) -> str:
        """Everything that processes of this name have said."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def said(self) -> str:
        """Return what the present process, or the last one, has said."""
        return self.log()[self._mark :]

    def launch(self) -> None:
        """Start it; does not wait."""
        self.note_fall()
        command = [
            "setpriv",
            "--pdeathsig",
            "KILL",
            sys.executable,
            "-P",
            "-m",
            "yaffle.cli",
            self.role,
        ]
        command += ["--config", str(write_toml(self.root / f"{self.name}.toml", self.settings))]
        paths = [str(self.source)] if self.source else []
        more = {}
        if self.steppable:
            more |= clock.apart(self.offset_path)
        paths += filter(None, [more.pop("PYTHONPATH", os.environ.get("PYTHONPATH"))])
        if paths:
            more["PYTHONPATH"] = os.pathsep.join(paths)
        if self.space is not None:
            command = self.space.enter(command)
        self._mark = len(self.log())
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                env=environment(**more),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.root,
            )

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def end(self, number: signal.Signals) -> int:
        """End it and return how it ended."""
        self.note_fall()
        if self.process is None:
            return 0
        for one in self.own_processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                one.send_signal(signal.SIGCONT)
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(END_S)
        self.process = None
        return code

    def note_fall(self) -> None:
        """Write down that it has ended though nobody asked for that, if so."""
        if self.process is not None and (code := self.process.poll()) is not None:
            self.falls[self.process.pid] = f"{self.name}, pid {self.process.pid}, code {code}"

    def own_processes(self) -> Sequence[psutil.Process]:
        """Return it and the children that are it: not the nodes it has started."""
        if not self.alive:
            return ()
        with contextlib.suppress(psutil.NoSuchProcess):
            main = psutil.Process(self.pid)
            return (main, *(c for c in main.children() if _is_prober(c)))
        return ()


def _is_prober(child: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return any("prober" in word for word in child.cmdline())
    return False


@dataclass(eq=False)
class Engine(Program):
    """A `yaffle engine` behind a proxy of its own to the database."""

    network: Network = field(kw_only=True)
    database: Proxy = field(kw_only=True)
    node_ports: range = field(kw_only=True)
    conditions: list[State] = field(default_factory=list)
    pids: set[int] = field(default_factory=set)
    """Of all its processes; rows name an engine by its pid."""

    def _note(self, word: str, *, able: bool | None) -> None:
        self.conditions.append(State(now_us(), word, able))

    @property
    def harmed(self) -> bool:
        """Whether something was done to it that still keeps it from working."""
        return not self.conditions or self.conditions[-1].able is False

    def start(self) -> None:
        """Start it; does not wait."""
        self.launch()
        self.pids.add(self.pid)
        self._note("started", able=None)

    @property
    def is_ready(self) -> bool:
        """Whether it has said that its session began."""
        return "session began" in self.said()

    def ready(self) -> None:
        """Wait for its session."""

        def ready() -> bool:
            assert self.alive, f"{self.name} ended:\n{self.said()[-3000:]}"
            return self.is_ready

        wait_for(
            ready, within_s=START_S, why=lambda: f"{self.name}: no session:\n{self.said()[-3000:]}"
        )

    # --- harm ------------------------------------------------------------------------------------

    def kill(self) -> None:
        """kill -9."""
        self._note("killed", able=False)
        self.end(signal.SIGKILL)

    def quit(self) -> int:
        """SIGTERM: it gives everything back."""
        self._note("quit", able=False)
        return self.end(signal.SIGTERM)

    def freeze(self) -> None:
        """SIGSTOP, the prober too; both stand still when this returns."""
        self._note("frozen", able=False)
        for one in self.own_processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                one.send_signal(signal.SIGSTOP)
        wait_for(lambda: all(stands_still(one.pid) for one in self.own_processes()))

    def thaw(self) -> None:
        """SIGCONT."""
        for one in self.own_processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                one.send_signal(signal.SIGCONT)
        self._note("thawed", able=None)

    def cut_database(self, mode: Mode) -> None:
        """Harm its way to the database, and to that alone."""
        self._note(f"database {mode}", able=None if mode is Mode.SLOW else False)
        self.network.turn(self.database, mode)

    def mend_database(self) -> None:
        """Open the way again."""
        self.network.turn(self.database, Mode.OPEN)
        self._note("database mended", able=None)

    def cut_nodes(self) -> None:
        """Drop what it sends to the nodes."""
        assert self.space is not None
        self._note(CUT_OFF, able=False)
        self.space.drop(self.node_ports)

    def mend_nodes(self) -> None:
        """Let it reach the nodes again."""
        assert self.space is not None
        self.space.restore()
        self._note("nodes mended", able=None)

    def mend(self) -> None:
        """Undo whatever was done to it; it runs."""
        self.thaw()
        self.mend_database()
        if self.space is not None:
            self.mend_nodes()
        self.step_clock(0.0)
        self.free_disk()

    def step_clock(self, seconds: float) -> None:
        """Step its wall clock; seen within a second. It stays able."""
        fresh = self.offset_path.with_suffix(".new")
        fresh.write_text(f"{seconds:+g}\n")
        fresh.replace(self.offset_path)
        self._note(f"clock {seconds:+g} s", able=None)

    def fill_disk(self) -> None:
        """Let every write of it to a file fail; what it starts is not harmed."""
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        self._note("disk full", able=None)

    def free_disk(self) -> None:
        """Let it write again."""
        no_limit = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, no_limit)
        self._note("disk free", able=None)


def write_toml(path: Path, settings: Mapping[str, object]) -> Path:
    """Write settings as TOML: JSON's numbers, texts and lists are TOML's too."""
    lines: list[str] = []

    def table(name: str, values: Mapping[str, object]) -> None:
        plain = {k: v for k, v in values.items() if not isinstance(v, Mapping)}
        if name:
            lines.append(f"[{name}]")
        lines.extend(f"{key} = {json.dumps(value)}" for key, value in plain.items())
        for key, value in values.items():
            if isinstance(value, Mapping):
                table(f"{name}.{key}" if name else key, value)

    table("", settings)
    path.write_text("\n".join(lines) + "\n")
    return path


def wait(what: Callable[[], object], bound_s: float, why: str) -> None:
    """Poll until `what` is true; a busy machine has its time, whatever the bound."""
    wait_for(what, within_s=max(bound_s, WAIT_S), why=why)


__all__ = ["Engine", "Mode", "Program", "environment", "wait", "write_toml"]
