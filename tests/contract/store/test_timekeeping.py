"""A machine whose clock is an hour off goes by the database's; a step of its clock moves nothing."""

from __future__ import annotations

import asyncio
import time

import pytest

from yaffle.engine.runtime.clock import SystemClock
from yaffle.engine.runtime.clock_sync import SLACK_US, correction, keep_time
from yaffle.store.database import open_store, prepare_server

HOUR_US = 3_600_000_000


class Astray(SystemClock):
    """The clock of a machine that is off; the servers of the tests run on this one, which is not."""

    def __init__(self, off_us: int) -> None:
        super().__init__()
        self.off_us = off_us

    def now_us(self) -> int:
        return super().now_us() + (self.off_us if self._told is None else 0)


@pytest.mark.parametrize(
    ("asked_us", "found_us", "answered_us", "by_us"),
    [
        pytest.param(100, 150, 200, 0, id="fits-in-between"),
        pytest.param(100, 200 + SLACK_US, 200, 0, id="nearly"),
        pytest.param(100, 201 + SLACK_US, 200, 1 + SLACK_US, id="behind"),
        pytest.param(HOUR_US, 500, HOUR_US + 100, 500 - HOUR_US, id="ahead"),
        pytest.param(0, HOUR_US, 2 * HOUR_US, 0, id="a-slow-answer-says-nothing"),
    ],
)
def test_correction(asked_us: int, found_us: int, answered_us: int, by_us: int) -> None:
    assert correction(asked_us, found_us, answered_us) == by_us


@pytest.mark.parametrize("off_us", [HOUR_US, -HOUR_US], ids=["ahead", "behind"])
def test_the_databases_clock_is_everybodys(server_url: str, off_us: int) -> None:
    prepare_server(server_url, clock=SystemClock())
    clock = Astray(off_us)

    async def main() -> None:
        async with open_store(server_url, clock=clock, with_engine_lock=False) as store:
            asked_us = time.time_ns() // 1000
            await keep_time(store, clock)
            # No answer tells more exactly than how long it took.
            took_us = time.time_ns() // 1000 - asked_us
            for _ in range(3):
                assert abs(clock.now_us() - time.time_ns() // 1000) < 1_000_000 + took_us
                # The machine's clock is stepped, an hour the other way: nothing moves here.
                clock.off_us = -clock.off_us
            before_us = clock.now_us()
            await keep_time(store, clock)
            apart_us = clock.now_us() - before_us
            assert -took_us <= apart_us < HOUR_US / 2, "and it is moved no further"

    asyncio.run(main())


def test_a_file_follows_the_machines_clock() -> None:
    """An administrator who sets a wrong clock right must be followed: there is no other clock."""
    clock = Astray(HOUR_US)

    async def main() -> None:
        async with open_store("sqlite://", clock=clock, runner="inline") as store:
            await keep_time(store, clock)
            assert clock.offset_us() == 0
            clock.off_us = 0
            assert abs(clock.now_us() - time.time_ns() // 1000) < 1_000_000

    asyncio.run(main())


def test_a_steered_clock_says_how_far_it_is_from_the_machines() -> None:
    clock = SystemClock()
    clock.steer(clock.now_us() + HOUR_US, clock.monotonic_s())
    assert abs(clock.offset_us() - HOUR_US) < 1_000_000
