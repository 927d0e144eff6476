"""Tells a host's failure to a program of the operator's: JSON on stdin, its exit code as the answer.

| exit code | means |
| --- | --- |
| 0 | it has taken the failure over, or has it already |
| 65 (EX_DATAERR) | as things are it will not: tried again at the longest interval |
| any other, a signal, no end in time | it may take it later |

The last line that it prints is shown to people. It is run again with the same input until it accepts,
and killed with all that it started when its time is over.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from yaffle.integrations.bounded_program import KILLING_S, run_program
from yaffle.integrations.driver_settings import Section
from yaffle.model.host_failure import HostFailure
from yaffle.model.operations import Delivery
from yaffle.ports.alert_driver import AlertDriver
from yaffle.ports.context import DriverContext

MEANS: Final = {0: Delivery.ACCEPTED, 65: Delivery.REFUSED}
"""Of every other exit code, and of none: RETRY."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecSettings:
    """Section `alerts.NAME` with `type = "exec"`."""

    program: Path
    """The program, by its absolute path; it is given no arguments and no environment."""

    @classmethod
    def read(cls, section: Section) -> ExecSettings:
        """Raise ConfigError for what is missing, wrong or unknown."""
        program = section.path("program")
        if program is None:
            section.wrong("program", "is missing")
        elif not (program.is_file() and os.access(program, os.X_OK)):
            section.wrong("program", f"is {program}, which is no program that may be run here")
        section.finish()
        return cls(program=program or Path())


class ExecAlerts:
    """Runs a program for each attempt."""

    type: ClassVar[str] = "exec"

    def __init__(self, context: DriverContext) -> None:
        section = Section(context.section or "alerts.exec", context.settings)
        self._settings = ExecSettings.read(section)

    async def send(self, failure: HostFailure, *, deadline_s: float) -> tuple[Delivery, str]:
        """Run it once, and return what its exit code means."""
        ran = await run_program(
            self._settings.program,
            json.dumps(failure.document()) + "\n",
            within_s=max(0.1, deadline_s - KILLING_S),
        )
        code = None if ran.fault or ran.exit_code is None else ran.exit_code
        return Delivery.RETRY if code is None else MEANS.get(code, Delivery.RETRY), ran.detail


if TYPE_CHECKING:
    _conforms: type[AlertDriver] = ExecAlerts
