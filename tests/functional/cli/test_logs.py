"""A disk that is full, or a reader that is gone, costs lines of the log and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LIVES = """
import logging, structlog
from yaffle.cli.serve.logs import configure
configure("info", "json")
for _ in range(1000):
    structlog.get_logger().warning("something happened", detail="x" * 100)
    logging.getLogger("library").error("something else")
print("alive", flush=True)
"""


@pytest.mark.parametrize("kind", ["full", "nobody-reads"])
def test_what_cannot_be_logged_ends_nothing(kind: str) -> None:
    if kind == "full":
        stderr = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, stderr = os.pipe()
        os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-c", LIVES],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            check=False,
            timeout=60,
        )
    finally:
        os.close(stderr)
    assert done.stdout == "alive\n"


def test_what_can_be_logged_is(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("w") as file:
        subprocess.run([sys.executable, "-c", LIVES], stderr=file, check=True, timeout=60)
    lines = path.read_text().splitlines()
    assert len(lines) == 2000
