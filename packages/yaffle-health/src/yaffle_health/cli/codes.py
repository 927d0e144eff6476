"""The exit codes that scripts and container probes act on: one table for all the commands."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from yaffle_health.model import Status


class ExitCode(enum.IntEnum):
    """What the command found. The documentation's table is tested against this one."""

    PASS = 0
    WARN = 1
    FAIL = 2
    NO_VERDICT = 3
    NOT_IN_TIME = 4
    USAGE = 64
    NOT_WRITTEN = 74
    INTERRUPTED = 130
    PIPE = 141


MEANINGS = {
    ExitCode.PASS: "everything passes; for `wait`: it came true",
    ExitCode.WARN: "something warns (0 with --warn-ok)",
    ExitCode.FAIL: "something fails",
    ExitCode.NO_VERDICT: "nobody answers there, or not with a verdict on health",
    ExitCode.NOT_IN_TIME: "`wait`: it did not come true in time",
    ExitCode.USAGE: "the command, an address or an option cannot be meant",
    ExitCode.NOT_WRITTEN: "the answer could not be written, for instance to a full disk",
    ExitCode.INTERRUPTED: "interrupted from the keyboard",
    ExitCode.PIPE: "whoever read the output has gone",
}
PROBE_FAILED = 1
"""What --probe returns for everything but pass and warn: Docker reserves 2 (HEALTHCHECK)."""

_OF = {None: ExitCode.NO_VERDICT, Status.PASS: ExitCode.PASS, Status.WARN: ExitCode.WARN}


def worst(statuses: Iterable[Status | None]) -> ExitCode:
    """Return the code of the worst of several readings; None is a reading without a verdict.

    No verdict is worse than fail: somebody who fails at least answers.
    """
    return max((_OF.get(status, ExitCode.FAIL) for status in statuses), default=ExitCode.NO_VERDICT)
