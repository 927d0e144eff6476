"""Bounds how often unknown webhooks are asked for, without standing in the way of real ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from yaffle.core.budgets import Bucket, refill
from yaffle.errors import TooManyRequests

if TYPE_CHECKING:
    from yaffle.core.budgets import BudgetLimit

KNOWN_MAX: Final = 10_000


class Guesses:
    """One bucket in memory for all ids that are none; ids that have worked here do not draw on it.

    Once it is empty, ids that this process has not seen work are looked up one at a time, and answered
    as too many where they are none: a flood of guesses costs one read at a time, and who calls a real
    one for the first time waits behind some of them.
    """

    def __init__(self, limit: BudgetLimit) -> None:
        self._limit = limit
        self._bucket = Bucket(tokens=float(limit.burst), updated_us=0)
        self._known: dict[str, None] = {}
        self._looking = asyncio.Lock()

    async def admit(
        self, ident: str, now_us: int, *, is_one: Callable[[], Awaitable[bool]]
    ) -> None:
        """Raise TooManyRequests for an id that is none where too many guesses came lately."""
        if ident in self._known:
            return
        self._bucket = refill(self._bucket, self._limit, now_us)
        if self._bucket.tokens >= 1:
            return
        async with self._looking:
            if await is_one():
                return
        wait_s = (1 - self._bucket.tokens) * 3600 / self._limit.per_hour
        raise TooManyRequests("Too many unknown receivers.", retry_after_s=wait_s)

    def failed(self, ident: str, now_us: int) -> None:
        """Count an id that is none."""
        self.forgets(ident)
        bucket = refill(self._bucket, self._limit, now_us)
        self._bucket = Bucket(tokens=max(0.0, bucket.tokens - 1), updated_us=now_us)

    def knows(self, ident: str) -> None:
        """Remember an id that works, the most recent `KNOWN_MAX` of them."""
        self._known.pop(ident, None)
        self._known[ident] = None
        if len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]

    def forgets(self, ident: str) -> None:
        """Forget an id that works no more."""
        self._known.pop(ident, None)
