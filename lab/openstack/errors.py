"""What went wrong in the lab, said so that a person knows which file to open."""

from __future__ import annotations

from pathlib import Path

LAST_LINES = 12


class LabError(Exception):
    """The lab cannot do what was asked; the message says what failed and where to look."""


def last_lines(log: Path, count: int = LAST_LINES) -> str:
    """Return the end of a log, indented; a log that is not there says so."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError as error:
        return f"    (no log: {error.strerror})"
    return "\n".join(f"    {line[:300]}" for line in lines[-count:]) or "    (the log is empty)"
