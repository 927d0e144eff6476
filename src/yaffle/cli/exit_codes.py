"""Exit codes: one table for every command, printed by the docs and read by scripts."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from yaffle.errors import YaffleError


class ExitCode(IntEnum):
    """Every code that `yaffle` ends with on purpose."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    AWAY = 5
    INTERRUPTED = 130


MEANING: Final[Mapping[ExitCode, str]] = MappingProxyType(
    {
        ExitCode.OK: "done",
        ExitCode.FAILED: "it was tried and failed, or was not finished in time",
        ExitCode.USAGE: "the caller must change something: usage, setting, document or right",
        ExitCode.NOT_FOUND: "no such object",
        ExitCode.CONFLICT: "right request, wrong moment: locked, in progress, in use or held",
        ExitCode.AWAY: "the server or something it needs is away; try again later",
        ExitCode.INTERRUPTED: "stopped with Ctrl-C",
    }
)

_BY_STATUS: Final[Mapping[int, ExitCode]] = MappingProxyType(
    {
        404: ExitCode.NOT_FOUND,
        409: ExitCode.CONFLICT,
        423: ExitCode.CONFLICT,
        # Too many requests and bad gateways pass by themselves.
        429: ExitCode.AWAY,
        502: ExitCode.AWAY,
        503: ExitCode.AWAY,
        504: ExitCode.AWAY,
    }
)


def of_status(status: int) -> ExitCode:
    """Return the code for an HTTP status; any other 4xx is the caller's to mend."""
    if status < 400:
        return ExitCode.OK
    return _BY_STATUS.get(status, ExitCode.USAGE if status < 500 else ExitCode.FAILED)


def of_error(error: YaffleError) -> ExitCode:
    """Return the code for an error; it carries the status that would tell the same over HTTP."""
    return of_status(error.status)
