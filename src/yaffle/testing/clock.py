"""The time of a virtual loop as `ports.Clock`; its wall clock can be made to jump."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from yaffle.ports import Clock

EPOCH_US: Final = 1_700_000_000_000_000
BOOT_S: Final = 1_000.0


class VirtualClock:
    """Both clocks follow the running loop; only the wall clock knows of steps."""

    def __init__(self) -> None:
        self.stepped_s = 0.0
        """Sum of all steps so far."""
        self.forward_s = 0.0
        """Sum of the steps forward: what a rate limit by wall clock may be fooled by."""

    def now_us(self) -> int:
        """Wall clock, µs."""
        return EPOCH_US + int((asyncio.get_event_loop().time() + self.stepped_s) * 1e6)

    def monotonic_s(self) -> float:
        """Never jumps."""
        return BOOT_S + asyncio.get_event_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Wait in virtual time."""
        await asyncio.sleep(seconds)

    def step(self, seconds: float) -> None:
        """Move the wall clock, as an administrator or NTP does."""
        self.stepped_s += seconds
        self.forward_s += max(0.0, seconds)


if TYPE_CHECKING:
    _conforms: type[Clock] = VirtualClock
