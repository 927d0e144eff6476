"""A state directory, an engine that may die at any time, nodes with diaries: what chaos tests hold.

Rows are read with sqlite3 alone and processes through /proc, never through the code under test.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import pytest
from tests.chaos import engine_child
from tests.chaos.diary import Diaries, Life, is_alive
from tests.servers.process import stands_still
from tests.waiting import wait_for

from yaffle.store.outbox import CAP_S

MINUTES = float(os.environ.get("YAFFLE_CHAOS_MINUTES") or 0)
TOLD_S = 3 * CAP_S
"""A message that a broken receiver refused ten times rests for up to one of these, and every fifth try is
refused once it is calm, too."""
long = pytest.mark.skipif(MINUTES == 0, reason="long: run by `make chaos MINUTES=1`")
"""For what is too slow for every run of all tests."""
WAIT_S = 60.0
WEBNODE = Path(__file__).with_name("webnode.py")
_spawn = multiprocessing.get_context("forkserver")
_spawn.set_forkserver_preload(["tests.chaos.engine_child", "yaffle.drivers.notifiers.webhook"])
_TURN = threading.Lock()
"""Whoever starts an engine looks at those of all threads, and so does whoever asks whether one lives."""

UNLIMITED = {"max_in_flight": 10, "burst": 1000, "per_hour": 1_000_000}


class Refused(Exception):
    """The service answered a command with an error."""


class EngineGone(Exception):
    """There is no engine to ask."""


def policy(**over: object) -> str:
    """Return a policy document that heals fast; `over` changes its numbers."""
    values: dict[str, object] = {
        "interval": 1,
        "fall": 2,
        "rise": 1,
        "grace": 5,
        "url": True,
        "actions": "[{name: REBOOT, params: {type: soft}, timeout: 6}, {name: RECREATE, timeout: 10}]",
        "max_unhealthy": "60%",
        "in_flight": 2,
        "attempts": 6,
        "backoff": 1,
        "max_backoff": 4,
        "stable_after": 6,
        **over,
    }
    url = (
        '      - {type: NODE_STATUS_POLL_URL, options: {poll_url: "http://{node_ip}:{port}/",'
        " poll_url_timeout: 0.8, poll_url_retry_limit: 1}}\n"
        if values["url"]
        else ""
    )
    return f"""
type: senlin.policy.health
version: "1.3"
properties:
  detection:
    interval: {values["interval"]}
    node_update_timeout: {values["grace"]}
    rise: {values["rise"]}
    fall: {values["fall"]}
    detection_modes:
      - {{type: NODE_STATUS_POLLING}}
{url}  recovery:
    fencing: [COMPUTE]
    actions: {values["actions"]}
    limits: {{max_unhealthy: {values["max_unhealthy"]}, max_in_flight: {values["in_flight"]}}}
    retry:
      attempts: {values["attempts"]}
      backoff: {values["backoff"]}
      max_backoff: {values["max_backoff"]}
      stable_after: {values["stable_after"]}
"""


@dataclass
class Lab:
    """One installation on this machine."""

    root: Path
    lease: float = 2.0
    notifiers: dict[str, dict[str, object]] = field(default_factory=dict)
    budgets: dict[str, object] = field(
        default_factory=lambda: dict.fromkeys(
            ("total", "project", "domain", "host", "cluster"), UNLIMITED
        )
    )
    state: Path = field(init=False)
    diary: Path = field(init=False)
    diaries: Diaries = field(init=False)
    process: Any = None
    frozen: bool = False

    def __post_init__(self) -> None:
        self.state = self.root / "state"
        self.diary = self.root / "diary"
        self.diaries = Diaries(self.diary)

    # --- the engine ----------------------------------------------------------------------------

    def start(self, *, die_at: str | None = None) -> None:
        """Start an engine and wait until it answers; `die_at`: see `engine_child.Doom`; empty: never."""
        ours, theirs = _spawn.Pipe()
        flags = {
            "state_dir": str(self.state),
            "local_process": {"enabled": True},
            "engine": {"lease": self.lease, "poll": 0.5},
            "budgets": self.budgets,
            "notifiers": {"log": {"type": "log"}, **self.notifiers},
        }
        self.process = _spawn.Process(
            target=engine_child.main,
            args=(flags, str(self.root / "engine.log"), die_at, theirs),
            daemon=True,
        )
        with _TURN:
            self.process.start()
        theirs.close()
        self.pipe = ours
        self.frozen = False
        if not ours.poll(120) or ours.recv() != "up":
            raise AssertionError(f"the engine did not start:\n{self.log()[-3000:]}")

    @property
    def alive(self) -> bool:
        """Whether an engine process is there, frozen or not."""
        with _TURN:
            return self.process is not None and self.process.is_alive()

    def kill(self) -> None:
        """kill -9 the engine."""
        if self.process is not None:
            self.process.kill()
            self.reap()

    def reap(self, bound_s: float = 120) -> None:
        """Wait for the engine's end."""
        wait([self.process.sentinel], bound_s)
        with _TURN:
            assert not self.process.is_alive(), "the engine has not ended"
            self.process.close()
        self.process = None
        self.pipe.close()

    def quit(self, *, doomed: bool = False) -> None:
        """End the engine cleanly; one that is doomed may come to its boundary just now."""
        if not self.alive:
            return
        self.thaw()
        self.pipe.send(("quit", [], {}))
        wait([self.process.sentinel], 120)
        with _TURN:
            code = self.process.exitcode
        self.reap()
        died = doomed and code == -signal.SIGKILL
        assert code == 0 or died, f"the engine ended with {code}:\n{self.log()[-3000:]}"

    def freeze(self) -> None:
        """SIGSTOP the engine; it stands still when this returns."""
        os.kill(self.process.pid, signal.SIGSTOP)
        wait_for(lambda: stands_still(self.process.pid), every_s=0.01)
        self.frozen = True

    def falls_asleep(self, cause: Callable[[], object]) -> None:
        """Let the engine stop itself with the commit that calls a node suspect, and not a look later."""
        self.call("sleep_when_suspect")
        cause()
        wait_for(lambda: stands_still(self.process.pid), every_s=0.01)
        self.frozen = True

    def thaw(self) -> None:
        """SIGCONT the engine."""
        if self.frozen:
            os.kill(self.process.pid, signal.SIGCONT)
            self.frozen = False

    def call(self, verb: str, *args: object, **named: object) -> Any:
        """Ask the engine for something; raises Refused or EngineGone."""
        if not self.alive or self.frozen:
            raise EngineGone(verb)
        try:
            self.pipe.send((verb, list(args), named))
            if not self.pipe.poll(60):
                raise EngineGone(f"{verb}: no answer")
            word, value = self.pipe.recv()
        except (EOFError, OSError) as error:
            raise EngineGone(verb) from error
        if word != "ok":
            raise Refused(value)
        return value

    def log(self) -> str:
        """Everything that engines of this lab have said."""
        path = self.root / "engine.log"
        return path.read_text() if path.exists() else ""

    # --- clusters --------------------------------------------------------------------------------

    def profile(self, name: str = "web", **over: object) -> None:
        """Create the profile of web nodes."""
        command = [
            sys.executable, "-I", "-S", str(WEBNODE), "{port}", "{nodename}", str(self.diary),
        ]  # fmt: skip
        spec = {"command": command, "stop_timeout": 1, **over}
        self.call("create_profile", name, "yaffle.local.process-1.0", spec, by="test")

    def cluster(
        self, name: str, size: int, *, policy_name: str | None, profile: str = "web"
    ) -> str:
        """Create a cluster; return its id."""
        ident = self.call("create_cluster", name, profile, size, by="test", policy=policy_name)
        return str(ident)

    def nodes(self) -> dict[str, sqlite3.Row]:
        """Return the nodes' rows by name."""
        return {str(r["name"]): r for r in self.rows("select * from nodes order by name")}

    def healthy(self) -> bool:
        """Whether every node is believed to be well and nothing is under way."""
        found = self.nodes()
        return bool(found) and all(
            n["health"] == "healthy" and n["status"] == "ACTIVE" for n in found.values()
        )

    # --- evidence --------------------------------------------------------------------------------

    def rows(self, sql: str, *values: object) -> list[sqlite3.Row]:
        """Read the database, whatever the engine is doing."""
        with contextlib.closing(sqlite3.connect(self.state / "yaffle.db", timeout=60)) as conn:
            conn.row_factory = sqlite3.Row
            conn.execute("pragma query_only = on")
            return conn.execute(sql, values).fetchall()

    def lives(self, name: str) -> list[Life]:
        """As `Diaries.lives`."""
        return self.diaries.lives(name)

    def violations(self) -> list[str]:
        """As `Diaries.violations`."""
        return self.diaries.violations()

    def pid(self, name: str) -> int:
        """Return the pid of a node's last life."""
        return self.lives(name)[-1].pid

    def manner(self, name: str, *lines: str) -> None:
        """As `Diaries.manner`."""
        self.diaries.manner(name, *lines)

    def signal(self, name: str, number: int) -> int | None:
        """As `Diaries.signal`."""
        return self.diaries.signal(name, number)

    def leftovers(self) -> list[str]:
        """Return living processes that belong to this lab, and files that should be gone."""
        needle = str(self.root).encode()
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                environ = (entry / "environ").read_bytes()
                command = (entry / "cmdline").read_bytes()
                if (
                    needle in command or (needle in environ and b"YAFFLE_" in environ)
                ) and is_alive(int(entry.name)):
                    found.append(f"process {entry.name}: {command[:120]!r}")
        for folder, kept in (("nodes", set()), ("ports", {".lock"})):
            path = self.state / folder
            found += [str(p) for p in path.glob("*") if p.name not in kept]
        found += [str(p) for p in self.state.rglob("*") if ".tmp" in p.name or p.name.endswith("~")]
        return found

    def story(self) -> str:
        """Return the last events, for a failure's message."""
        lines = [
            f"{r['at_us'] / 1e6:.3f} {r['oname']} {r['action']} {r['status']} {r['reason'][:120]}"
            for r in self.rows("select * from events order by seq desc limit 60")
        ]
        return "\n".join(reversed(lines))

    def wait(self, what: Callable[[], object], bound_s: float, why: str) -> None:
        """Poll until `what` is true; a busy machine has its time, whatever the bound."""

        def told() -> str:
            held = {
                n: (r["status"], r["health"], r["status_reason"]) for n, r in self.nodes().items()
            }
            return f"{why}\n{json.dumps(held, indent=1)}\n{self.story()}\n{self.log()[-3000:]}"

        wait_for(what, within_s=max(bound_s, WAIT_S), why=told)


def now_us() -> int:
    """The wall clock, as rows and diaries have it."""
    return time.time_ns() // 1000


@contextlib.contextmanager
def lab(root: Path, **settings: Any) -> Iterator[Lab]:
    """Yield a lab, and leave no process behind, whatever happens."""
    made = Lab(root, **settings)
    try:
        yield made
    finally:
        if made.alive:
            made.thaw()
            made.kill()
        for path in made.diary.glob("*.diary"):
            for life in made.lives(path.stem):
                if is_alive(life.pid) and _is_ours(life.pid, made.root):
                    os.kill(life.pid, signal.SIGKILL)


def _is_ours(pid: int, root: Path) -> bool:
    with contextlib.suppress(OSError):
        return str(root).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def close(here: Lab) -> None:
    """Delete every cluster, end the engine, and see that nothing is left and nothing ran twice."""
    if not here.alive:
        here.start()
    for row in here.rows("select name from clusters where status != 'DELETING'"):
        here.call("delete_cluster", row["name"], by="test")
    here.wait(lambda: not here.nodes(), 30, "every node is deleted")
    here.quit()
    left = here.leftovers()
    assert left == [], left
    assert here.violations() == []
