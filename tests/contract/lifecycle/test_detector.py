"""LIFECYCLE_EVENTS as a detector like any other, and as one whose tasks begin and end by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs
from tests.contract.lifecycle.stage import (
    OFF,
    Backend,
    LoopClock,
    RealClock,
    Seen,
    Traced,
    body,
    detector,
    ended,
    mode,
    power_off,
    sender,
    settled,
    source,
    target,
    targets,
    until,
)
from tests.given import given_clock
from tests.servers.rabbitmq import RabbitMQ
from tests.waiting import wait_for

from yaffle.errors import ConfigError
from yaffle.testing.checks.detector import check_detector
from yaffle.testing.loop import run_virtual


def test_it_keeps_what_every_detector_keeps() -> None:
    backend = Traced(states={"s1": OFF})

    @asynccontextmanager
    async def hang() -> AsyncIterator[None]:
        backend.delay_s = 1000
        yield
        backend.delay_s = 0

    async def main() -> None:
        with given_clock() as clock:
            seen = await check_detector(
                detector(backend, clock=RealClock()), targets(2), mode(), clock=clock, hang=hang
            )
        assert [o.code for o in seen] == ["ST-UP", "ST-DOWN"]

    asyncio.run(main())


def test_without_a_source_it_asks_and_says_what_is_lacking() -> None:
    async def main() -> None:
        backend, seen = Backend(), Seen()
        lifecycle = detector(backend, clock=LoopClock())
        assert "drivers.LIFECYCLE_EVENTS.sources" in lifecycle.lacking
        with capture_logs() as logs:
            lifecycle.watch("w", targets(1), mode(), interval_s=10, sink=seen)
            await asyncio.sleep(100)
        assert backend.asked("s0") >= 9
        assert set(seen.codes(0)) == {"ST-UP"}
        assert [e["event"] for e in logs] == ["nothing is heard, everything is asked for"]
        lifecycle.unwatch("w")

    run_virtual(main)


def test_a_wrong_section_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"drivers\.LIFECYCLE_EVENTS\.sources\.lab"):
        detector(Backend(), {"lab": {}})


def test_the_last_unwatch_ends_everything_and_the_next_watch_begins_it(rabbitmq: RabbitMQ) -> None:
    async def main() -> None:
        before = asyncio.all_tasks()
        async with sender(rabbitmq.url) as nova:
            also = asyncio.all_tasks()
            backend, seen, other = Backend(), Seen(), Seen()
            lifecycle = detector(backend, source(rabbitmq))
            assert lifecycle.lacking == ""
            lifecycle.watch("a", [target(0)], mode(), interval_s=60, sink=seen)
            lifecycle.watch("b", [target(1)], mode(), interval_s=60, sink=other)
            await settled(lifecycle, 2)
            lifecycle.unwatch("a")
            lifecycle.unwatch("a")
            told = len(seen.all)
            await nova.send(power_off("s0"), power_off("s1"))
            await until(lambda: other.heard(1), "the other is watched on")
            assert len(seen.all) == told
            lifecycle.unwatch("b")
            # At once again, as when a policy changes: the old connection ends while the new begins.
            lifecycle.watch("b", [target(1)], mode(), interval_s=60, sink=other)
            await settled(lifecycle, 1)
            await nova.send(power_off("s1"))
            await until(lambda: len(other.heard(1)) == 2, "it hears")
            lifecycle.unwatch("b")
            await ended()
            await until(lambda: asyncio.all_tasks() <= also, "no task is left")
        await until(lambda: asyncio.all_tasks() <= before, "no task is left")

    asyncio.run(main())


def test_it_ends_with_the_loop(rabbitmq: RabbitMQ) -> None:
    """As an engine that is told to stop: nothing is awaited, and nothing complains."""

    async def main() -> None:
        async with sender(rabbitmq.url):
            lifecycle = detector(Backend(), source(rabbitmq))
            lifecycle.watch("w", [target(0)], mode(), interval_s=60, sink=Seen())
            await settled(lifecycle)

    asyncio.run(main())


def test_watches_share_one_connection(rabbitmq: RabbitMQ) -> None:
    async def main() -> None:
        async with sender(rabbitmq.url):
            lifecycle = detector(Backend(), source(rabbitmq))
            for number in range(20):
                lifecycle.watch(f"w{number}", [target(number)], mode(), interval_s=60, sink=Seen())
            await settled(lifecycle, 20)

            def connections() -> int:
                named = rabbitmq.ctl("list_connections", "client_properties")
                return named.count('"connection_name","yaffle"')

            # The broker lists one of a test before for a moment still.
            await asyncio.to_thread(wait_for, lambda: connections() == 1)
            for number in range(20):
                lifecycle.unwatch(f"w{number}")
            await ended()

    asyncio.run(main())


def test_a_bug_of_ours_is_told_and_all_begins_anew() -> None:
    async def main() -> None:
        backend, told = Backend(), Seen()

        def sink(batch: object) -> None:
            if len(backend.calls) == 2:
                raise ZeroDivisionError("a sink must not raise, and this one does")
            told(batch)  # type: ignore[arg-type]

        lifecycle = detector(backend, clock=LoopClock())
        with capture_logs() as logs:
            lifecycle.watch("w", targets(1), mode(), interval_s=10, sink=sink)
            await asyncio.sleep(60)
        assert len(told.of(0)) >= 4
        assert [e["log_level"] for e in logs if "begin anew" in e["event"]] == ["error"]
        lifecycle.unwatch("w")

    run_virtual(main)


def test_a_host_that_is_forced_down_wakes_all_its_nodes(rabbitmq: RabbitMQ) -> None:
    async def main() -> None:
        backend, seen = Backend(), Seen()
        async with sender(rabbitmq.url) as nova:
            lifecycle = detector(backend, source(rabbitmq))
            there = [target(n, host="cmp1") for n in range(3)]
            lifecycle.watch("w", [*there, target(3, host="cmp2")], mode(), interval_s=60, sink=seen)
            await settled(lifecycle, 4)
            calls = len(backend.calls)
            data = {"host": "cmp1", "binary": "nova-compute", "forced_down": True}
            await nova.send(
                body("service.update", {"nova_object.data": data}, publisher="nova-api:ctl"),
                key="versioned_notifications.info",
            )
            await until(lambda: len(backend.calls) > calls, "they are read")
            assert [sorted(c) for c in backend.calls[calls:]] == [["s0", "s1", "s2"]]
            lifecycle.unwatch("w")
            await ended()

    asyncio.run(main())
