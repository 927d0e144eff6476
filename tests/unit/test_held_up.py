"""`make held-up` holds up what it should, and nothing where it was not asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "tests" / "held_up" / "run.py"
SITE = RUN.with_name("site")

RACY = """
import asyncio, time

def test_who_is_first():
    \"\"\"Right as long as nobody comes in between.\"\"\"
    async def main():
        loop = asyncio.get_running_loop()
        due = loop.time() + 0.02
        for _ in range(10):
            await asyncio.sleep(0)
        assert loop.time() < due
    end = time.monotonic() + 60
    while time.monotonic() < end:
        asyncio.run(main())
"""
"""Long enough for many accounts: a long pause outside of what is timed uses up that of five seconds."""
STOPPED = """
import signal, subprocess, sys, time

def test_a_child_is_stopped_and_goes_on():
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as child:
        def state():
            with open(f"/proc/{child.pid}/stat") as file:
                return file.read().rpartition(")")[2].split()[0]
        end = time.monotonic() + 120
        seen = []
        while seen[-2:] != ["T", "S"] and time.monotonic() < end:
            if seen[-1:] != [now := state()]:
                seen.append(now)
            time.sleep(0.01)
        child.kill()
    assert seen[-2:] == ["T", "S"], seen
"""


def held_up(tmp_path: Path, test: str, *words: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "test_it.py").write_text(test)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return subprocess.run(
        [sys.executable, str(RUN), *words, "--", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def test_what_is_racy_fails_and_says_with_which_seed(tmp_path: Path) -> None:
    done = held_up(tmp_path, RACY, "--share", "0.9", "--rate", "0", "--seed", "7")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "share 0.9, rate 0, seed 7" in done.stdout
    assert "test_who_is_first" in done.stdout


def test_any_process_may_be_stopped_and_goes_on(tmp_path: Path) -> None:
    done = held_up(tmp_path, STOPPED, "--share", "0", "--rate", "20")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("module", ["asyncio", "threading"])
def test_nothing_is_imported_for_it(module: str) -> None:
    code = f"import sys; print({module!r} in sys.modules)"
    env = {**os.environ, "PYTHONPATH": str(SITE), "HELD_UP_SHARE": "0.5"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
