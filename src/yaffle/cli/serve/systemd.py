"""Tells systemd that we are ready and alive (sd_notify): a loop that hangs is restarted from outside."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from yaffle_health.sdnotify import Notifier, watchdog_s

if TYPE_CHECKING:
    from yaffle.ports import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Systemd:
    """The supervisor's socket; without one every word is spoken into the wind."""

    notifier: Notifier | None
    watchdog_s: float | None
    """How long it waits for a sign of life; None: not at all."""

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], pid: int) -> Self:
        """Read NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID (sd_notify(3), sd_watchdog_enabled(3))."""
        notifier = Notifier.of(environ)
        return cls(notifier=notifier, watchdog_s=watchdog_s(environ, pid) if notifier else None)

    def tell(self, text: str) -> None:
        """Send one state; a supervisor that does not listen is no reason to fail."""
        if self.notifier is not None:
            self.notifier.send(text)

    async def keep(self, clock: Clock) -> None:
        """Give signs of life, twice within each bound, for as long as the event loop turns."""
        while self.watchdog_s is not None:
            self.tell("WATCHDOG=1")
            await clock.sleep(self.watchdog_s / 2)


def from_here() -> Systemd:
    """Return this process's supervisor."""
    return Systemd.from_environment(os.environ, os.getpid())
