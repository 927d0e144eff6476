"""Whoever guesses webhooks is told so, and nobody else: no stranger, and no caller of a real one."""

from __future__ import annotations

import asyncio

import pytest

from yaffle.core.planning.budgets import BudgetLimit
from yaffle.engine.commands.webhook_rate_limit import KEPT_MAX, WebhookRateLimit
from yaffle.errors import TooManyRequests

LIMIT = BudgetLimit(max_in_flight=1, burst=2, per_hour=360.0)


def test_each_source_has_a_bucket() -> None:
    guesses = WebhookRateLimit(LIMIT)
    for _ in range(2):
        guesses.missed("x", "here", 0)
    with pytest.raises(TooManyRequests) as error:
        guesses.missed("x", "here", 0)
    assert error.value.retry_after_s == 10
    guesses.missed("x", "there", 0)
    guesses.missed("x", "here", 10_000_000)


def test_sources_are_forgotten_the_oldest_first() -> None:
    guesses = WebhookRateLimit(BudgetLimit(max_in_flight=1, burst=1, per_hour=1.0))
    for number in range(KEPT_MAX):
        guesses.missed("x", str(number), 0)
    with pytest.raises(TooManyRequests):
        guesses.missed("x", "0", 0)
    guesses.missed("x", "new", 0)
    with pytest.raises(TooManyRequests):
        guesses.missed("x", "0", 0)
    guesses.missed("x", "1", 0)


def test_what_has_worked_waits_behind_nobody() -> None:
    async def scenario() -> None:
        guesses, hang = WebhookRateLimit(LIMIT), asyncio.Event()

        async def hangs() -> bool:
            await hang.wait()
            return False

        guesses.knows("real")
        async with asyncio.TaskGroup() as group:
            stranger = group.create_task(guesses.is_one("none", hangs))
            await asyncio.sleep(0)
            async with asyncio.timeout(10):
                assert await guesses.is_one("real", hangs)
            hang.set()
        assert not stranger.result()
        guesses.missed("real", "here", 0)
        assert not await guesses.is_one("real", hangs)

    asyncio.run(scenario())
