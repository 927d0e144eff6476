"""An execution of Mistral's as its API tells it, and what its states mean to us."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

import msgspec

from yaffle.model.msgspec_init import UNREADABLE, prepared
from yaffle.model.operations import Progress, ProgressState
from yaffle.model.timing import POLL_MAX_S

_R = ProgressState.RUNNING

STATES: Final[Mapping[str, tuple[ProgressState, str]]] = MappingProxyType(
    {
        "IDLE": (_R, "has not begun"),
        "WAITING": (_R, "waits"),
        "RUNNING": (_R, "runs"),
        "DELAYED": (_R, "waits for its next attempt"),
        # Somebody may go on with it; until its timeout it is theirs.
        "PAUSED": (_R, "was paused by somebody"),
        "SUCCESS": (ProgressState.DONE, "has succeeded"),
        "SKIPPED": (ProgressState.FAILED, "was skipped"),
        "CANCELLED": (ProgressState.FAILED, "was cancelled"),
        "ERROR": (ProgressState.FAILED, "has failed"),
    }
)
"""Every state that Mistral knows; another one is not known to have ended."""

LAST_S: Final = POLL_MAX_S + 3.0
"""Before its timeout a workflow is cancelled: a poll falls into that, and has the time for it."""
LAST_SHARE: Final = 0.25
"""Of its timeout that is at most."""
_DETAIL_MAX: Final = 400


@prepared
class Note(msgspec.Struct, frozen=True, kw_only=True):
    """The description of an execution: for people, and for the next engine."""

    yaffle_operation: str
    node: str
    cluster: str
    timeout_s: float


class Execution(msgspec.Struct, frozen=True, kw_only=True):
    """The part of Mistral's answer that counts."""

    id: str
    workflow_name: str = ""
    state: str = ""
    state_info: str | None = None
    description: str | None = None
    created_at: str = ""
    """UTC, `2026-11-21 00:09:10`."""

    def progress(self) -> Progress:
        """Return how far it is."""
        state, words = STATES.get(self.state, (_R, f"is in a state unknown to us: {self.state}"))
        why = " ".join((self.state_info or "").split())
        said = f"workflow {self.workflow_name} {words}; execution {self.id}"
        return Progress(state=state, detail=f"{said}: {why}"[:_DETAIL_MAX] if why else said)

    def note(self) -> Note | None:
        """Return what we wrote when we began it; None for somebody else's."""
        try:
            return msgspec.json.decode(self.description or "", type=Note)
        except UNREADABLE:
            return None

    def is_late(self, now_us: int) -> bool:
        """Whether its own timeout is all but over: a workflow must not go on beside the next rung.

        At the timeout nobody asks any more, and what is sent a moment before has no time to arrive.
        """
        note = self.note()
        try:
            began = datetime.strptime(self.created_at, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
        except ValueError:
            return False
        if note is None:
            return False
        last_s = min(LAST_S, LAST_SHARE * note.timeout_s)
        return now_us / 1e6 > began.timestamp() + note.timeout_s - last_s
