"""Host monitors see whether hosts live, and who has been fenced; the engine decides what that means."""

from __future__ import annotations

from typing import ClassVar, Protocol

from yaffle.model.host_state import HostFencing, HostReport, HostSighting, MonitorBlind, Seen

__all__ = ["HostFencing", "HostMonitor", "HostReport", "HostSighting", "MonitorBlind", "Seen"]


class HostMonitor(Protocol):
    """Look at all hosts of one cluster in bounded time, without changing anything."""

    type: ClassVar[str]

    async def look(self, *, deadline_s: float) -> HostReport | MonitorBlind:
        """Return the whole present state, at every call anew: the engine may have missed any change.

        MonitorBlind where it cannot be asked, has no quorum, or leaves out what should be there. A
        host that lived a moment ago and is not named is not well: it is unknown.
        """
        ...
