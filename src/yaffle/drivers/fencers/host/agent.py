"""Run of a fence agent, seen from the engine: what was asked, what came back, what it means.

The agent's options go over pipes and memory files, never through arguments, the environment or the
disk; whatever it prints is masked before anybody reads it. (`fence_ipmilan` itself hands the
password to `ipmitool -P`, which wipes it from its arguments when it starts: docs/howto.)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from yaffle.integrations.bounded_program import Ran

_SAYS: Final = re.compile(r"\bstatus:\s*(on|off)\b", re.IGNORECASE)
_STRANGE: Final = re.compile(r"unknown option|ignoring .*option", re.IGNORECASE)


class Power(StrEnum):
    """Power of the host by the word of `status`."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


def power_of(ran: Ran) -> Power:
    """Return what a `status` means (FenceAgentAPI: 0 is on, 2 is off, anything else is an error).

    2 is also how a shell, or Python's argparse, says that it was called wrongly. So off counts only
    from an agent that says so, or that has nothing to complain of; and words that contradict the
    exit code leave us knowing nothing.
    """
    said = {word.lower() for word in _SAYS.findall(ran.out)}
    if ran.fault or len(said) > 1:
        return Power.UNKNOWN
    match ran.exit_code:
        case 0 if said <= {"on"}:
            return Power.ON
        case 2 if said == {"off"} or not (said or ran.err.strip()):
            return Power.OFF
        case _:
            return Power.UNKNOWN


def misunderstood(ran: Ran) -> bool:
    """Whether the agent did not know an option: it may then speak of another plug than ours."""
    return _STRANGE.search(ran.err) is not None or _STRANGE.search(ran.out) is not None


def lines(action: str, options: Mapping[str, str], secrets: Mapping[str, str]) -> str:
    """Return what the agent reads on its standard input."""
    return "".join(
        f"{key}={value}\n" for key, value in {**options, **secrets, "action": action}.items()
    )
