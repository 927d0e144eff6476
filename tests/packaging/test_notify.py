"""The notify protocol as a supervisor sees it: ready, alive, stopping; silent when the loop hangs."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from tests.given import Given
from tests.servers.process import stands_still
from tests.waiting import wait_for

YAFFLE = (sys.executable, "-P", "-m", "yaffle.cli")
WATCHDOG_S = 2.0
BOUND_S = 120.0

# The real Systemd and the real clock; a line on standard input hangs the loop, another ends that.
HANGING = """\
import asyncio, sys
from yaffle.cli.serve import systemd
from yaffle.engine.runtime.clock import SystemClock

def hang():
    print(sys.stdin.readline(), end="", flush=True)
    print(sys.stdin.readline())

async def main():
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin, hang)
    await systemd.from_here().keep(SystemClock())

asyncio.run(main())
"""


class Supervisor:
    """Plays systemd: a datagram socket, and the words that came with their times."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self.env = {
            "NOTIFY_SOCKET": str(path),
            "WATCHDOG_USEC": str(int(WATCHDOG_S * 1e6)),
        }

    def word(self, within_s: float) -> str | None:
        """Return the next message; None when there is none in time."""
        self._socket.settimeout(within_s)
        try:
            return self._socket.recv(4096).decode()
        except TimeoutError:
            return None

    def until(self, start: str) -> str:
        """Return the first message that begins so; the others are dropped."""
        end = time.monotonic() + BOUND_S
        while (left := end - time.monotonic()) > 0:
            word = self.word(left)
            if word is not None and word.startswith(start):
                return word
        raise AssertionError(f"nothing like {start!r} within {BOUND_S} s")

    def silent(self, for_s: float) -> bool:
        """Whether nothing comes for so long, once what was under way has been read."""
        while self.word(0.05) is not None:
            pass
        return self.word(for_s) is None

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    found = Supervisor(tmp_path / "notify")
    yield found
    found.close()


@contextmanager
def started(
    *words: str, env: dict[str, str], stdin: int | None = None
) -> Iterator[subprocess.Popen[str]]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("YAFFLE_")}
    process = subprocess.Popen(
        words,
        env={**kept, **env},
        text=True,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        for number in (signal.SIGCONT, signal.SIGKILL):
            process.send_signal(number)
        process.wait(60)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


def serve(folder: Path) -> tuple[str, ...]:
    return (*YAFFLE, "serve", "--listen", "127.0.0.1:0", "--state-dir", str(folder / "state"))


def test_a_server_is_ready_when_it_listens_lives_and_says_that_it_stops(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    with started(*serve(tmp_path), env=supervisor.env) as process:
        ready = supervisor.until("READY=1")
        address = re.search(r"STATUS=listening on 127\.0\.0\.1:(\d+)", ready)
        assert address, ready
        # Ready is no promise: somebody answers there already.
        socket.create_connection(("127.0.0.1", int(address[1])), timeout=60).close()
        # Twice within each bound: one that is late by half of it does no harm.
        with Given() as time_given:
            times = [time_given.s for _ in range(5) if supervisor.until("WATCHDOG=1")]
        assert all(after - before < WATCHDOG_S for before, after in pairwise(times)), times
        process.send_signal(signal.SIGTERM)
        supervisor.until("STOPPING=1")
        assert process.wait(BOUND_S) == 0


def test_a_frozen_server_feeds_nobody_and_feeds_again_when_it_goes_on(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    with started(*serve(tmp_path), env=supervisor.env) as process:
        supervisor.until("WATCHDOG=1")
        process.send_signal(signal.SIGSTOP)
        wait_for(lambda: stands_still(process.pid))
        assert supervisor.silent(1.5 * WATCHDOG_S)
        process.send_signal(signal.SIGCONT)
        supervisor.until("WATCHDOG=1")


def test_a_process_whose_loop_hangs_feeds_nobody(supervisor: Supervisor) -> None:
    with started(
        sys.executable, "-P", "-c", HANGING, env=supervisor.env, stdin=subprocess.PIPE
    ) as process:
        supervisor.until("WATCHDOG=1")
        assert process.stdin is not None
        process.stdin.write("hang\n")
        process.stdin.flush()
        assert process.stdout is not None
        assert process.stdout.readline() == "hang\n"
        assert supervisor.silent(1.5 * WATCHDOG_S)
        # It is not stopped, it runs: only its loop does not turn.
        state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        assert state in "RS"
        process.stdin.write("go on\n")
        process.stdin.flush()
        supervisor.until("WATCHDOG=1")


def test_what_the_watchdog_sends_makes_it_say_where_it_hung(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    env = {**supervisor.env, "PYTHONFAULTHANDLER": "1"}
    with started(*serve(tmp_path), env=env) as process:
        supervisor.until("READY=1")
        process.send_signal(signal.SIGABRT)
        said, _ = process.communicate(timeout=BOUND_S)
        assert process.returncode == -signal.SIGABRT
        assert "Fatal Python error: Aborted" in said
        assert "asyncio" in said
