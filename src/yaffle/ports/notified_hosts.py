"""What other monitors have notified of hosts, for the host monitor that goes by their word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from yaffle.model.instance_ha import NotificationOrigin


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifiedHost:
    """A word on a host."""

    host: str
    """As its sender calls it."""
    off: bool | None
    """Whether it failed and is off, by that word, or is back; None where its sender does not say."""
    at_s: int
    """Since when, by the sender's clock or ours, whichever is behind (seconds since the epoch)."""
    origin: NotificationOrigin
    sender: str
    """The user, or the holder of a secret, as whom it was sent."""


class NotifiedHosts(Protocol):
    """Reads what is stored of notifications."""

    async def words(self) -> tuple[NotifiedHost, ...]:
        """Return the words on hosts, the latest first; raise StoreUnavailable while none can be read."""
        ...
