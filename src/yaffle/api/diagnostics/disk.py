"""Diagnoses disk space: a full disk ends all healing while every read goes on."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from yaffle.api.diagnostics.report import Check, Status
from yaffle.engine.runtime.disk_space import lacking

if TYPE_CHECKING:
    from pathlib import Path

NAME: Final = "disk"
MB: Final = 1_000_000
WARN_BYTES: Final = 50 * MB
FAIL_BYTES: Final = 5 * MB
ADVICE: Final = (
    "Free some space, or run `yaffle db prune`; without room to write nothing is healed."
)


def look(folder: Path) -> Check:
    """Return what there is and whether a write succeeds; blocks for as long as the disk takes."""
    try:
        found = os.statvfs(folder)
    except OSError as error:
        return failed(f"{folder}: {error.strerror}")
    free = found.f_bavail * found.f_frsize
    if why := lacking(folder):
        return failed(f"{why} ({_shown(free)} free)")
    return judge(folder, free)


def judge(folder: Path, free: int) -> Check:
    """Return the verdict on so many free bytes."""
    detail = f"{folder}: {_shown(free)} free"
    if free < FAIL_BYTES:
        return failed(f"{detail}, too little to go on")
    if free < WARN_BYTES:
        return Check(name=NAME, status=Status.WARN, detail=f"{detail}, soon full", advice=ADVICE)
    return Check(name=NAME, status=Status.OK, detail=detail)


def failed(detail: str) -> Check:
    """Return the verdict on a disk that cannot be written, and why."""
    return Check(name=NAME, status=Status.FAIL, detail=detail, advice=ADVICE)


def _shown(size: int) -> str:
    return f"{size / 1000 / MB:.1f} GB" if size >= 1000 * MB else f"{size / MB:.1f} MB"
