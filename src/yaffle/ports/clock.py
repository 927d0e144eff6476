"""The only way to the time: real in production, virtual in the simulation."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


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


@runtime_checkable
class SteeredClock(Protocol):
    """A clock whose `now_us` is kept with another one than the machine's."""

    def steer(self, now_us: int, at_s: float) -> None:
        """Count the time from now on from `now_us` at `at_s` of the monotonic clock."""
        ...

    def offset_us(self) -> int:
        """Return how far `now_us` is ahead of the machine's own clock; 0 while nobody has steered it."""
        ...

    def monotonic_s(self) -> float:
        """As a `Clock`."""
        ...

    def now_us(self) -> int:
        """As a `Clock`."""
        ...
