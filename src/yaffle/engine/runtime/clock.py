"""The real clock, the one place that asks the operating system for the time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from yaffle.ports.clock import Clock, SteeredClock


class SystemClock:
    """Wall clock for records, CLOCK_BOOTTIME for durations: it counts while suspended.

    Once steered, the wall clock goes on from what it was told, at the pace of the monotonic clock:
    a step of the machine's own clock moves it no more.
    """

    def __init__(self) -> None:
        self._told: tuple[int, float] | None = None

    def now_us(self) -> int:
        """Wall clock, µs since the epoch, UTC; the database's where it has been steered."""
        told = self._told
        if told is None:
            return time.time_ns() // 1000
        at_us, at_s = told
        return at_us + int((self.monotonic_s() - at_s) * 1_000_000)

    def monotonic_s(self) -> float:
        """Seconds since boot, suspended time included; never jumps."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        import asyncio  # noqa: PLC0415 - of commands hardly any waits so, and it is a tenth of their time

        await asyncio.sleep(seconds)

    def steer(self, now_us: int, at_s: float) -> None:
        """Count the time from now on from `now_us` at `at_s` of the monotonic clock."""
        self._told = (now_us, at_s)

    def offset_us(self) -> int:
        """Return how far this clock is ahead of the machine's own."""
        return 0 if self._told is None else self.now_us() - time.time_ns() // 1000


if TYPE_CHECKING:
    _conforms: type[Clock] = SystemClock
    _is_steered: type[SteeredClock] = SystemClock
