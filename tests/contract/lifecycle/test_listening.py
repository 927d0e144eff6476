"""LIFECYCLE_EVENTS with a real broker: an event wakes a reading, silence vouches, lies do nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop
from tests.contract.lifecycle.stage import (
    GONE,
    OFF,
    UP,
    Backend,
    Traced,
    body,
    own_queue,
    power_off,
    power_on,
    sender,
    settled,
    source,
    until,
    watching,
)
from tests.servers.rabbitmq import RabbitMQ

from yaffle.model.health import Hint, Outcome

KEYS = ("notifications.info", "notifications.error", "versioned_notifications.info")


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_an_event_wakes_one_authoritative_reading(
    rabbitmq: RabbitMQ, run: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    async def main() -> None:
        backend = Backend()
        async with (
            sender(rabbitmq.url) as nova,
            watching(backend, source(rabbitmq), nodes=2) as (lifecycle, seen),
        ):
            await settled(lifecycle, 2)
            backend.states["s1"] = OFF
            before = backend.asked("s0")
            await nova.send(power_off("s1"))
            await until(lambda: seen.of(1, "ST-DOWN"), "the event is read")
            found = seen.last(1)
            assert found.authoritative
            assert found.outcome is Outcome.FAIL
            assert found.hint == Hint(event="POWER_OFF", state="stopped", publisher="compute.cmp1")
            assert found.backend_status == "SHUTOFF"
            assert backend.asked("s0") == before, "nobody else was read"
            assert lifecycle.counts["heard"] == 1

    run(main())


def test_what_makes_a_node_well_is_heard_as_well(rabbitmq: RabbitMQ) -> None:
    async def main() -> None:
        backend = Backend(states={"s0": OFF})
        async with (
            sender(rabbitmq.url) as nova,
            watching(backend, source(rabbitmq)) as (lifecycle, seen),
        ):
            await settled(lifecycle, 0)
            await until(lambda: seen.of(0, "ST-DOWN"), "the baseline")
            assert not seen.last(0).authoritative, "nobody told: it has to fall as by polling"
            assert seen.last(0).hint == Hint(event="POWER_OFF", state="SHUTOFF")
            backend.states["s0"] = UP
            await nova.send(power_on("s0"))
            await until(lambda: seen.of(0, "ST-UP"), "the event is read")
            assert seen.last(0).authoritative
            assert seen.last(0).hint is None

    asyncio.run(main())


def test_heats_events_are_heard_over_its_own_exchange(rabbitmq: RabbitMQ) -> None:
    def stack(end: str, publisher: str = "orchestration.vm") -> bytes:
        payload = {"stack_identity": "s0", "state": "DELETE_COMPLETE", "user_identity": "u"}
        return body(f"orchestration.stack.{end}", payload, publisher)

    async def main() -> None:
        backend = Backend()
        both = source(rabbitmq, exchanges=["nova", "heat"])
        async with (
            sender(rabbitmq.url, "nova", "heat") as cloud,
            watching(backend, both, nodes=2) as (lifecycle, seen),
        ):
            await settled(lifecycle, 2)
            backend.states["s0"] = GONE
            await cloud.send(stack("delete.end", "compute.cmp1"), exchange="heat")
            await until(lambda: sum(lifecycle.counts.values()) == 1, "it is a stranger's")
            before = backend.asked("s0")
            await cloud.send(stack("delete.end"), exchange="heat")
            await until(lambda: seen.of(0, "ST-GONE"), "the event is read")
            assert seen.last(0).authoritative
            assert seen.last(0).hint == Hint(
                event="DELETE", state="DELETE_COMPLETE", publisher="orchestration.vm"
            )
            assert backend.asked("s0") == before + 1
            assert not seen.of(1, "ST-GONE")
            # What failed comes with another priority.
            backend.states["s0"] = UP
            await cloud.send(stack("update.error"), exchange="heat", key="notifications.error")
            await until(lambda: len(seen.heard(0)) == 2, "the error is read")
            assert seen.last(0).code == "ST-UP"

    asyncio.run(main())


def test_silence_vouches_for_what_was_read_as_up(rabbitmq: RabbitMQ) -> None:
    async def main() -> None:
        backend = Backend(states={"s1": OFF})
        async with (
            sender(rabbitmq.url),
            watching(backend, source(rabbitmq), nodes=2, interval_s=0.5) as (lifecycle, seen),
        ):
            await settled(lifecycle, 1)
            asked = backend.asked("s0")
            await until(lambda: len(seen.of(0, "EV-QUIET")) >= 4, "silence is told")
            quiet = seen.of(0, "EV-QUIET")[-1]
            assert (quiet.outcome, quiet.answered) == (Outcome.PASS, True)
            assert quiet.backend_status == "ACTIVE"
            assert not quiet.authoritative
            assert backend.asked("s0") == asked, "nobody was asked about it"
            assert not seen.of(1, "EV-QUIET"), "nobody vouches for what is not up"
            # The last of these may be a moment later than the fourth word of the other's silence.
            await until(lambda: backend.asked("s1") >= 4, "it is read every interval")

    asyncio.run(main())


@pytest.mark.parametrize(
    ("raw", "key", "counted"),
    [
        pytest.param(b"\xff\x00 not json", KEYS[0], "unreadable", id="poison"),
        pytest.param(b"[" * 100_000, KEYS[0], "unreadable", id="too deep"),
        pytest.param(body("image.delete", {}), KEYS[0], "unknown_type", id="unknown"),
        pytest.param(
            body("compute.instance.pause.end", {"instance_id": "s0"}, publisher="evil.host"),
            KEYS[0],
            "unexpected_publisher",
            id="stranger",
        ),
        pytest.param(
            body("compute.instance.pause.end", {"instance_id": 7}),
            KEYS[1],
            "unreadable",
            id="wrong shape",
        ),
        pytest.param(power_off("somebody-else"), KEYS[0], "of_nobody", id="not ours"),
    ],
)
def test_what_is_not_for_us_wakes_nobody(
    rabbitmq: RabbitMQ, raw: bytes, key: str, counted: str
) -> None:
    async def main() -> None:
        backend = Backend()
        async with (
            sender(rabbitmq.url) as nova,
            watching(backend, source(rabbitmq)) as (lifecycle, seen),
        ):
            await settled(lifecycle)
            calls = len(backend.calls)
            await nova.send(raw, raw, key=key)
            await until(lambda: lifecycle.counts[counted] == 2, f"{counted}: {lifecycle.counts}")
            await nova.send(power_off("s0"), key=key)
            await until(lambda: seen.heard(0), "what comes next is heard")
            assert len(backend.calls) == calls + 1

    asyncio.run(main())


def test_a_message_beside_the_exchange_is_nobodys(rabbitmq: RabbitMQ) -> None:
    async def main() -> None:
        backend = Backend()
        async with (
            sender(rabbitmq.url) as nova,
            watching(backend, source(rabbitmq)) as (lifecycle, _),
        ):
            await settled(lifecycle)
            calls = len(backend.calls)
            queue = await own_queue(rabbitmq)
            forged = nova.channel.default_exchange
            import aio_pika

            await forged.publish(aio_pika.Message(power_off("s0")), routing_key=queue)
            await until(lambda: lifecycle.counts["unexpected_publisher"] == 1, "it is refused")
            assert len(backend.calls) == calls

    asyncio.run(main())


def test_lies_late_and_doubled_events_change_nothing(rabbitmq: RabbitMQ) -> None:
    """Off, on, off again in any order: the reading says what is so."""

    async def main() -> None:
        backend = Traced()
        async with (
            sender(rabbitmq.url) as nova,
            watching(backend, source(rabbitmq)) as (lifecycle, seen),
        ):
            await settled(lifecycle)
            await nova.send(power_on("s0"), power_off("s0"), power_off("s0"), power_on("s0"))
            await nova.send(
                body("compute.instance.delete.end", {"instance_id": "s0", "state": "deleted"})
            )
            await until(lambda: lifecycle.counts["woke"] == 5, "all were heard")
            await until(lambda: seen.heard(0), "the node was read")
            assert {o.code for o in seen.of(0)} <= {"ST-UP", "EV-QUIET"}
            assert all(o.hint is None for o in seen.all)
            assert backend.traces == []

    asyncio.run(main())


def test_a_storm_is_a_few_batches(rabbitmq: RabbitMQ) -> None:
    """A thousand nodes, ten events each: few calls, all told, and never two for one node at once."""

    async def main() -> None:
        backend = Backend(delay_s=0.05)
        async with (
            sender(rabbitmq.url) as nova,
            watching(backend, source(rabbitmq), nodes=1000) as (lifecycle, seen),
        ):
            await settled(lifecycle, 1000)
            backend.states.update({f"s{n}": OFF for n in range(1000)})
            calls, began_s = len(backend.calls), time.monotonic()
            for _ in range(3):
                await nova.send(*(power_off(f"s{n}") for n in range(1000)))
            await until(lambda: lifecycle.counts["woke"] == 3000, "all were heard")
            await until(
                lambda: all(seen.last(n).code == "ST-DOWN" for n in range(1000)), "all were read"
            )
            assert all(seen.last(n).authoritative for n in range(1000))
            took_s = time.monotonic() - began_s
            made = backend.calls[calls:]
            # As many as there are gathering times in it, however long it takes them to arrive.
            assert len(made) <= 20 * took_s + 5, f"{len(made)} calls in {took_s:.1f} s"
            assert max(map(len, made)) <= 1000

    asyncio.run(main())
