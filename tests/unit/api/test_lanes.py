"""Turns and places: callers in turn, bounds of each, and nothing lost when somebody gives up."""

from __future__ import annotations

import asyncio

import pytest

from yaffle.api.http.request_lanes import FairQueue, Lane, is_urgent
from yaffle.errors import DependencyError


def test_callers_take_turns() -> None:
    queue: FairQueue[int] = FairQueue()
    for number in range(3):
        queue.push("greedy", number)
    queue.push("modest", 9)
    assert [queue.pop() for _ in range(5)] == [
        ("greedy", 0),
        ("modest", 9),
        ("greedy", 1),
        ("greedy", 2),
        None,
    ]


def test_one_caller_never_has_all_places() -> None:
    async def story() -> None:
        lane = Lane(at_once=3, of_one=2)
        await lane.enter("greedy")
        await lane.enter("greedy")
        third = asyncio.ensure_future(lane.enter("greedy"))
        await asyncio.sleep(0)
        assert not third.done()
        async with asyncio.timeout(60):
            await lane.enter("modest")
            lane.leave("greedy")
            await third

    asyncio.run(story())


def test_who_finds_the_queue_full_is_told_so() -> None:
    async def story() -> None:
        lane = Lane(at_once=1, of_one=1, waiting=2, waiting_of_one=1)
        await lane.enter("a")
        waiting = [asyncio.ensure_future(lane.enter(name)) for name in ("a", "b")]
        await asyncio.sleep(0)
        for name in ("a", "c"):
            with pytest.raises(DependencyError):
                await lane.enter(name)
        # Whoever gives up leaves no hole.
        waiting[0].cancel()
        await asyncio.wait(waiting[:1])
        lane.leave("a")
        await waiting[1]
        lane.leave("b")
        await lane.enter("c")

    asyncio.run(story())


@pytest.mark.parametrize(
    ("path", "urgent"),
    [
        ("/health", True),
        ("/livez", True),
        ("/yaffle/v1/stop", True),
        ("/yaffle/v1/maintenance", True),
        ("/yaffle/v1/maintenance/x", True),
        ("/yaffle/v1/stopped", False),
        ("/docs", False),
    ],
)
def test_what_is_answered_at_any_time(path: str, *, urgent: bool) -> None:
    assert is_urgent(path) is urgent
