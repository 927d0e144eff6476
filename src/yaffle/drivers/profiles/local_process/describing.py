"""Facts for people about a node: its process, what it executes, since when, and where its log is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from yaffle.drivers.profiles.local_process.folder import Folder
from yaffle.drivers.profiles.local_process.procfs import Procfs, ProcUnreadable, Stat
from yaffle.drivers.profiles.local_process.reading import Reader
from yaffle.drivers.profiles.local_process.record import RecordUnreadable
from yaffle.model.operations import Target

_COMMAND_MAX: Final = 4096
_SECOND: Final = 1_000_000


def describe(
    state_dir: Path, procfs: Procfs, target: Target, *, now_us: int, uptime_s: float
) -> Mapping[str, object]:
    """Return JSON-able facts; what cannot be read is left out, never guessed.

    `uptime_s`: seconds since boot, the clock by which the kernel notes when a process began.
    """
    reading = Reader(state_dir, procfs).read([target])[0]
    facts: dict[str, object] = {"status": reading.backend_status, "detail": reading.detail}
    try:
        folder = Folder(state_dir, target.node_id)
        record, launch = folder.load(), folder.load_launch()
        if record is not None:
            facts |= {**record.attributes, "physical_id": record.physical_id}
        main = None
        if launch is not None and not launch.error:
            main = procfs.find(launch.identity)
        if main is not None and main.alive:
            facts |= _running(procfs, main, now_us, uptime_s)
    except (OSError, ValueError, ProcUnreadable, RecordUnreadable) as error:
        facts["unclear"] = str(error)
    return facts


def _running(procfs: Procfs, main: Stat, now_us: int, uptime_s: float) -> dict[str, object]:
    since_s = main.start / os.sysconf("SC_CLK_TCK")
    return {
        "pid": main.pid,
        "state": main.state,
        "threads": main.threads,
        "command": procfs.command_line(main.pid)[:_COMMAND_MAX],
        "started_us": now_us - int((uptime_s - since_s) * _SECOND),
    }
