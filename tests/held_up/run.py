"""Run tests while all of their processes are held up at random: what is racy fails sooner than it would.

    python tests/held_up/run.py [--share 0.05] [--rate 1] [--seed N] -- PYTEST-ARGUMENTS

Two things are done, for neither finds what the other finds: each Python process pauses before some turns
of its loops and threads (`site/sitecustomize.py`), and whoever of all processes happens to be drawn is
stopped for up to a second. A test that fails here and asserts nothing about time has a race; one that
does has to measure the time that it was given (`tests/given.py`).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

SITE = Path(__file__).with_name("site")
STOPS_S = (0.05, 0.1, 0.2, 0.4, 1.0)


def main() -> int:
    """Return what pytest returns."""
    parser = argparse.ArgumentParser(description="Run tests whose processes are held up at random.")
    parser.add_argument("--share", type=float, default=0.05, help="of all turns (0.05)")
    parser.add_argument("--rate", type=float, default=1.0, help="stopped processes a second (1)")
    parser.add_argument("--seed", default="", help="of what is drawn; the machine adds its own")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest, after --")
    asked = parser.parse_args()
    seed = asked.seed or str(random.randrange(10**9))
    print(f"held up: share {asked.share:g}, rate {asked.rate:g}, seed {seed}", flush=True)
    env = {
        **os.environ,
        "HELD_UP_SHARE": str(asked.share),
        "HELD_UP_SEED": seed,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(SITE), os.environ.get("PYTHONPATH")))),
    }
    with subprocess.Popen([sys.executable, "-m", "pytest", *asked.pytest], env=env) as tests:
        stop_some(tests, asked.rate, random.Random(seed))
        return tests.returncode


def stop_some(tests: subprocess.Popen[bytes], rate: float, rng: random.Random) -> None:
    """Stop one process after the other below `tests` for a while, until these are over."""
    while tests.poll() is None:
        try:
            tests.wait(rng.expovariate(rate) if rate else None)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                if found := psutil.Process(tests.pid).children(recursive=True):
                    stop(rng.choice(found), rng.choice(STOPS_S))


def stop(process: psutil.Process, for_s: float) -> None:
    """Stop a process that is not stopped already: a test that has done so must find it so."""
    if process.status() in {psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE}:
        return
    process.send_signal(signal.SIGSTOP)
    time.sleep(for_s)
    process.send_signal(signal.SIGCONT)


if __name__ == "__main__":
    sys.exit(main())
