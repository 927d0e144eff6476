"""A clock that stands where a test puts it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

START_US = 1_800_000_000_000_000


@dataclass
class SetClock:
    us: int = START_US

    def now_us(self) -> int:
        return self.us

    def monotonic_s(self) -> float:
        return self.us / 1e6

    async def sleep(self, seconds: float) -> None:
        self.us += int(seconds * 1e6)
        await asyncio.sleep(0)
