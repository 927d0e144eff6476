"""Evidence of a failure: the end of the log and what is left of the processes, bounded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from yaffle.drivers.profiles.local_process import process_table
from yaffle.drivers.profiles.local_process.folder import Folder
from yaffle.drivers.profiles.local_process.procfs import Procfs, ProcUnreadable
from yaffle.drivers.profiles.local_process.record import RecordUnreadable

LOG_BYTES: Final = 16 * 1024
_PROCESSES_MAX: Final = 200


def tail(path: Path, limit: int) -> str:
    """Return the last `limit` bytes of a regular file as text; raises OSError."""
    # Not blocking: the user may have named a pipe.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        return os.pread(file.fileno(), limit, max(0, size - limit)).decode("utf-8", "replace")


def last_words(log: Path) -> str:
    """Return the last line of a log, or why there is none."""
    try:
        lines = tail(log, 1000).strip().splitlines()
    except OSError as error:
        return f"(no log: {error.strerror})"
    return repr(lines[-1][-300:]) if lines else "(its log is empty)"


def capture(folder: Folder, procfs: Procfs) -> str:
    """Return the processes of the node and the end of its log."""
    return f"{_processes(folder, procfs)}\n{_log(folder)}"


def _processes(folder: Folder, procfs: Procfs) -> str:
    try:
        launch = folder.load_launch()
        started = None if launch is None or launch.error else launch.identity
        found = process_table.of_node(
            procfs,
            process_table.take(procfs),
            folder.node_id,
            started=started,
            folder=folder.path,
        )
    except (OSError, RecordUnreadable, ProcUnreadable) as error:
        return f"processes: not readable: {error}"
    lines = [
        f"  pid {p.pid} parent {p.parent} session {p.session} state {p.state} ({p.command})"
        for p in (*found.members, *found.doubtful)[:_PROCESSES_MAX]
    ]
    return "\n".join(("processes:", *(lines or ["  none"])))


def _log(folder: Folder) -> str:
    try:
        record = folder.load()
        path = Path(record.log_file) if record is not None and record.log_file else folder.log
        return f"log {path}:\n{tail(path, LOG_BYTES)}"
    except (OSError, RecordUnreadable) as error:
        return f"log: not readable: {error}"
