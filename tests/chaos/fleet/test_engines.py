"""Who has ended by itself is told apart from who was ended."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from tests.chaos.fleet.engines import Program


def program(tmp_path: Path, script: str) -> Program:
    made = Program("a", "engine", tmp_path, {})
    made.process = subprocess.Popen(["sh", "-c", script])
    return made


def test_a_crash_is_noted(tmp_path: Path) -> None:
    crashed = program(tmp_path, "ulimit -c 0; kill -SEGV $$")
    assert crashed.process is not None
    crashed.process.wait(60)
    assert crashed.end(signal.SIGTERM) == -signal.SIGSEGV
    assert [fall.endswith(", code -11") for fall in crashed.falls.values()] == [True]


def test_what_we_end_has_not_fallen(tmp_path: Path) -> None:
    ours = program(tmp_path, "exec sleep 60")
    assert ours.end(signal.SIGKILL) == -signal.SIGKILL
    assert not ours.falls
