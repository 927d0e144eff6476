"""The wall clock of one process, apart from others': by libfaketime; its monotonic one is left alone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

FAKETIME: Final = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")


def apart(file: Path, offset_s: int = 0) -> dict[str, str]:
    """Return the environment of a process whose clock is as far ahead as `file` says at any time."""
    paths = (str(Path(__file__).with_name("stepped")), os.environ.get("PYTHONPATH", ""))
    file.write_text(f"{offset_s:+d}\n")
    return {
        "LD_PRELOAD": str(FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(file),
        "FAKETIME_CACHE_DURATION": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_RESET": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
