"""Limits how often unknown webhooks are looked up, without delaying the known ones."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from yaffle.core.planning.budgets import Bucket, refill
from yaffle.errors import TooManyRequests

if TYPE_CHECKING:
    from yaffle.core.planning.budgets import BudgetLimit

KEPT_MAX: Final = 10_000


class WebhookRateLimit:
    """One bucket in memory for each source of ids that are none; ids that are one draw on none.

    So it is looked first and judged then. Ids that have worked here are let through at once; others are
    looked up one at a time, by a read: that is all that a flood of guesses costs, and all that who
    calls a real one for the first time waits behind.
    """

    def __init__(self, limit: BudgetLimit) -> None:
        self._limit = limit
        self._buckets: dict[str, Bucket] = {}
        self._known: dict[str, None] = {}
        self._looking = asyncio.Lock()

    async def is_one(self, ident: str, look: Callable[[], Awaitable[bool]]) -> bool:
        """Return whether an id is that of a receiver; what has worked here is believed to be."""
        if ident in self._known:
            return True
        async with self._looking:
            return await look()

    def knows(self, ident: str) -> None:
        """Remember an id that works, the most recent `KEPT_MAX` of them."""
        self._known.pop(ident, None)
        self._known[ident] = None
        _shorten(self._known)

    def missed(self, ident: str, source: str, now_us: int) -> None:
        """Count an id that is none; raise TooManyRequests where too many came from that source lately."""
        self._known.pop(ident, None)
        full = Bucket(tokens=float(self._limit.burst), updated_us=now_us)
        bucket = refill(self._buckets.pop(source, full), self._limit, now_us)
        left = bucket.tokens - 1
        self._buckets[source] = Bucket(tokens=left, updated_us=now_us) if left >= 0 else bucket
        _shorten(self._buckets)
        if left < 0:
            wait_s = -left * 3600 / self._limit.per_hour
            raise TooManyRequests("Too many unknown receivers.", retry_after_s=wait_s)


def _shorten(kept: dict[str, None] | dict[str, Bucket]) -> None:
    if len(kept) > KEPT_MAX:
        del kept[next(iter(kept))]
