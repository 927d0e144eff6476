"""The only way to the time: real in production, virtual in the simulation."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Two clocks and a way to wait."""

    def now_us(self) -> int:
        """Wall clock, µs since the epoch, UTC. May jump; whoever relies on it must say so."""
        ...

    def monotonic_s(self) -> float:
        """Never jumps, and counts while the machine is suspended (CLOCK_BOOTTIME)."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; the only sleep in the engine and the drivers."""
        ...
