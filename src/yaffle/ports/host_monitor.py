"""Host monitors see whether hosts live, and who has been fenced; the engine decides what that means."""

from __future__ import annotations

from typing import ClassVar, Protocol, runtime_checkable

from yaffle.model.host_state import (
    HostFencing,
    HostMark,
    HostReport,
    HostSighting,
    MonitorBlind,
    Seen,
    is_named,
)

__all__ = [
    "HostFencing",
    "HostMark",
    "HostMonitor",
    "HostReport",
    "HostSighting",
    "MonitorBlind",
    "Seen",
    "SupportsMarks",
    "SupportsWakeUp",
    "is_named",
]


class HostMonitor(Protocol):
    """Look at all hosts of one cluster in bounded time, without changing anything."""

    type: ClassVar[str]
    by_hand: ClassVar[str]
    """How a person has host `{host}` fenced by whoever the monitor asks; empty where nobody does that."""

    async def look(self, *, deadline_s: float) -> HostReport | MonitorBlind:
        """Return the whole present state, at every call anew: the engine may have missed any change.

        MonitorBlind where it cannot be asked, has no quorum, or leaves out what should be there. A
        host that lived a moment ago and is not named is not well: it is unknown.
        """
        ...


@runtime_checkable
class SupportsMarks(Protocol):
    """A monitor whose cluster keeps marks of failed hosts (seed 3)."""

    async def clear(self, mark: HostMark, *, deadline_s: float) -> str:
        """Remove a mark if it says what it said when it was seen; return why not, empty where it is so.

        One that is gone or has changed is left as it is, which is no fault. Called again and again.
        """
        ...


@runtime_checkable
class SupportsWakeUp(Protocol):
    """A monitor that may be told that something has happened, so that nobody waits for the next look."""

    async def changed(self) -> None:
        """Wait until something may have changed since the last call; for ever where nobody tells.

        A hint: what it misses is seen at the next look. It is cancelled when that is due.
        """
        ...
