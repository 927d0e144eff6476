"""The verbs of a local process, and the phases that each goes through, as tables."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from yaffle.model.operations import Operation, OperationSpec, ParamSpec


class Phase(StrEnum):
    """A stage of an operation; the record names it before anything of it is done."""

    VACANT = "vacant"
    """Refuse while an older copy may still run."""
    NOT_RUNNING = "not-running"
    """Done at once when it runs already; refuse while anything else of it lives."""
    PREPARE = "prepare"
    """Folders, physical id, port."""
    ASK = "ask"
    """Send the stop signal; go on after `stop_timeout`."""
    ASK_ONLY = "ask-only"
    """Send the stop signal; give up after `stop_timeout`."""
    KILL = "kill"
    """SIGKILL until nothing is left, for certain."""
    WIPE = "wipe"
    LAUNCH = "launch"
    ALIVE = "alive"
    REMOVE = "remove"


_START: Final = (Phase.PREPARE, Phase.LAUNCH, Phase.ALIVE)
PLANS: Final[Mapping[str, tuple[Phase, ...]]] = MappingProxyType(
    {
        "CREATE": (Phase.VACANT, *_START),
        "START": (Phase.NOT_RUNNING, *_START),
        "STOP": (Phase.ASK, Phase.KILL),
        "REBOOT-SOFT": (Phase.ASK_ONLY, *_START),
        "REBOOT-HARD": (Phase.KILL, *_START),
        "REBUILD": (Phase.KILL, Phase.WIPE, *_START),
        "DELETE": (Phase.ASK, Phase.KILL, Phase.REMOVE),
        "KILL": (Phase.KILL,),
    }
)
"""Nothing leads to LAUNCH but through a phase that proves the node vacant."""

KILL: Final = "KILL"
"""For fencers: the end of everything that runs of a node, proved."""

OPERATIONS: Final[Mapping[str, OperationSpec]] = MappingProxyType(
    {
        "CREATE": OperationSpec(
            description="Start the command as a new copy; refused while an older one may run.",
            in_place=False,
        ),
        "DELETE": OperationSpec(
            description="Stop, then kill, the whole session; prove it gone; remove its files.",
            in_place=True,
        ),
        "REBOOT": OperationSpec(
            description="End the process and start it again; same port, files and physical id.",
            in_place=True,
            params=MappingProxyType(
                {
                    "type": ParamSpec(
                        type=str,
                        default="HARD",
                        choices=("SOFT", "HARD"),
                        description="SOFT asks with the stop signal and fails if that is ignored.",
                    )
                }
            ),
        ),
        "REBUILD": OperationSpec(
            description="Kill, wipe the work files, start again; same port and physical id.",
            in_place=True,
        ),
        "START": OperationSpec(description="Start a node that is off.", in_place=True),
        "STOP": OperationSpec(description="Stop, then kill; the node stays, off.", in_place=True),
        KILL: OperationSpec(
            description="Kill everything of the node at once and prove it gone (fencing).",
            in_place=True,
            internal=True,
        ),
    }
)


def plan_of(op: Operation) -> str | None:
    """Return the name of the plan for `op`, or None where it is not offered."""
    if op.kind == "REBOOT":
        name = f"REBOOT-{str(op.params.get('type', 'HARD')).upper()}"
    else:
        name = op.kind
    return name if name in PLANS else None
