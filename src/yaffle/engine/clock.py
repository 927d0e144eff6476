"""The real clock; the one place where the operating system is asked for the time."""

from __future__ import annotations

import asyncio
import time


class SystemClock:
    """Wall clock for records, CLOCK_BOOTTIME for durations: it counts while suspended."""

    def now_us(self) -> int:
        """Wall clock, µs since the epoch, UTC."""
        return time.time_ns() // 1000

    def monotonic_s(self) -> float:
        """Seconds since boot, suspended time included; never jumps."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)
