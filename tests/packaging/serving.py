"""Real `yaffle` servers, started privately on free ports and gone with the test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx
from tests.functional.cli.support import Done, run_here
from tests.waiting import wait_for

YAFFLE: Final = (sys.executable, "-P", "-m", "yaffle.cli")


def until(condition: Callable[[], Any], within_s: float = 90.0) -> Any:
    """Poll until `condition` holds and return it."""
    return wait_for(condition, within_s=within_s)


def environment(**more: str) -> dict[str, str]:
    """Return an environment without settings of the machine that runs the tests."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("YAFFLE_", "NOTIFY_"))}
    return {**kept, "NO_COLOR": "1", **more}


class Serving:
    """A `yaffle serve`, `yaffle api` or `yaffle engine` of its own, while the block lasts."""

    def __init__(
        self,
        folder: Path,
        *flags: str,
        command: str = "serve",
        listen: str = "127.0.0.1:0",
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.state_dir = folder / "state"
        self._words = (*YAFFLE, command, *flags)
        self.env = environment(
            **{
                "YAFFLE_STATE_DIR": str(self.state_dir),
                "YAFFLE_SERVER__LISTEN": listen,
                **(env or {}),
            }
        )
        self.log = folder / f"{command}.log"
        self.url = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def start(self) -> None:
        """Start it, and wait until it listens."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._words, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.url = until(self._card)

    def _card(self) -> str | None:
        assert self.process.poll() is None, self.log.read_text()
        try:
            card = json.loads((self.state_dir / "server.json").read_text())
        except (OSError, ValueError):
            return None
        return str(card["url"]) if card["pid"] == self.process.pid else None

    def until_acting(self) -> None:
        """Wait until its engine may act and has measured once."""
        wanted = (
            'yaffle_part_up{part="engine"} 1.0',
            'yaffle_stops{by="yaffle"}',
            "yaffle_nodes_held{",
        )

        def measured() -> bool:
            assert self.process.poll() is None, self.log.read_text()
            text = self.metrics()
            return all(word in text for word in wanted)

        until(measured)

    def metrics(self) -> str:
        """Return what it counts."""
        return httpx.get(f"{self.url}/metrics", timeout=60, trust_env=False).text

    def cli(self, *words: str, given: str = "") -> Done:
        """Run a command that finds this server by its state directory."""
        own = {k: v for k, v in self.env.items() if k.startswith("YAFFLE_")}
        return run_here(*words, env=own, given=given)

    def ok(self, *words: str, given: str = "") -> str:
        """Run a command that has to succeed, and return its output."""
        done = self.cli(*words, given=given)
        said = f"{words}: {done.out}{done.err}\n{self.log.read_text()[-3000:]}"
        assert done.code == 0, said
        return done.out

    def end(self, number: int = signal.SIGTERM) -> int:
        """End it and return its code."""
        self.process.send_signal(number)
        return self.process.wait(120)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(60)


def yaffle(*words: str, folder: Path, **env: str) -> str:
    """Run a command without a server, which has to succeed, and return its output."""
    done = subprocess.run(
        [*YAFFLE, *words],
        env=environment(YAFFLE_STATE_DIR=str(folder / "state"), **env),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout
