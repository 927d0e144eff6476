"""A real broker on its bad days: what cannot be heard is asked for, and nothing is believed blindly."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from structlog.testing import capture_logs
from tests.contract.lifecycle.conftest import ANSWER_S
from tests.contract.lifecycle.stage import (
    OFF,
    Backend,
    own_queue,
    power_off,
    sender,
    settled,
    source,
    until,
    watching,
)
from tests.given import Given
from tests.servers.process import free_port
from tests.servers.rabbitmq import PASSWORD, USER, RabbitMQ
from tests.waiting import wait_for

from yaffle.drivers.detectors.lifecycle import LifecycleDetector
from yaffle.drivers.detectors.lifecycle import source as lifecycle_source

pytestmark = pytest.mark.slow
RESTART_S = 120.0


def ours(rabbitmq: RabbitMQ) -> list[str]:
    """Return the names of our queues."""
    lines = rabbitmq.ctl("list_queues", "name").splitlines()
    return [line for line in lines if line.startswith("yaffle.lifecycle.")]


def fault(lifecycle: LifecycleDetector) -> str:
    """Return what the one source lacks, as a person is told."""
    (listener,) = lifecycle.listeners()
    assert bool(listener.fault) == bool(listener.advice), listener
    assert not (lifecycle.listening and listener.fault), listener
    return listener.fault


def test_a_source_says_how_it_is(own_rabbitmq: RabbitMQ) -> None:
    async def main() -> None:
        place = urlsplit(own_rabbitmq.url).netloc.rpartition("@")[2]
        async with watching(Backend(), source(own_rabbitmq)) as (lifecycle, _):
            await until(lambda: fault(lifecycle) == "there is no exchange nova", "it is missed")
            async with sender(own_rabbitmq.url):
                await until(lambda: not fault(lifecycle), "it has come")
                assert lifecycle.listeners()[0].detail == f"listening to {place}"
                await asyncio.to_thread(own_rabbitmq.kill)
                await until(lambda: fault(lifecycle).startswith(f"{place}: "), "it is away")
                assert PASSWORD not in fault(lifecycle)
                own_rabbitmq.start()
        (listener,) = lifecycle.listeners()
        assert (listener.detail, listener.fault) == (
            "not connected: nothing is watched by events here",
            "",
        )

    asyncio.run(main())


def test_a_killed_broker_is_asked_around_and_listened_to_again(own_rabbitmq: RabbitMQ) -> None:
    async def main() -> None:
        backend = Backend()
        async with watching(backend, source(own_rabbitmq), nodes=2, interval_s=1.0) as (
            lifecycle,
            seen,
        ):
            async with sender(own_rabbitmq.url):
                await settled(lifecycle, 2)
            await until(lambda: seen.of(0, "EV-QUIET"), "silence vouches")
            await asyncio.to_thread(own_rabbitmq.kill)
            await until(lambda: not lifecycle.listening, "the loss is noticed")
            quiet, asked = len(seen.of(0, "EV-QUIET")), backend.asked("s0")
            backend.states["s1"] = OFF
            await until(lambda: backend.asked("s0") >= asked + 3, "it is read every interval")
            await until(lambda: len(seen.of(1, "ST-DOWN")) >= 3, "a failure shows all the same")
            assert len(seen.of(0, "EV-QUIET")) == quiet, "nobody vouches meanwhile"
            assert not any(o.authoritative for o in seen.all)

            # Not in a thread: it would end with the thread that has started it.
            own_rabbitmq.start()
            # The exchange went with the broker; it comes back with its sender, and so do we.
            await asyncio.sleep(1)
            assert not lifecycle.listening
            calls = len(backend.calls)
            async with sender(own_rabbitmq.url) as nova:
                await until(lambda: lifecycle.listening, "it listens again", RESTART_S)
                await until(lambda: lifecycle.vouched == 1, "and has read what is up")
                assert any(set(call) == {"s0", "s1"} for call in backend.calls[calls:])
                backend.states["s0"] = OFF
                await nova.send(power_off("s0"))
                await until(lambda: seen.heard(0), "and hears")

    asyncio.run(main())


def test_a_frozen_broker_vouches_for_nobody(
    own_rabbitmq: RabbitMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle_source, "ANSWER_S", ANSWER_S)

    async def main() -> None:
        backend = Backend()
        async with (
            sender(own_rabbitmq.url) as nova,
            watching(backend, source(own_rabbitmq), interval_s=0.5) as (lifecycle, seen),
        ):
            await settled(lifecycle)
            own_rabbitmq.freeze()
            try:
                with Given() as time_given:
                    await until(lambda: not lifecycle.listening, "it is noticed")
                    took_s = time_given.s
                assert took_s < 8, f"{took_s:.1f} s; heartbeats alone would take half a minute"
                # A gap beside the event that comes below would find what has happened without it.
                monkeypatch.setattr(lifecycle_source, "ANSWER_S", 60.0)
                asked = backend.asked("s0")
                await until(lambda: backend.asked("s0") >= asked + 3, "it is asked")
            finally:
                own_rabbitmq.thaw()
            await until(lambda: lifecycle.listening, "it listens again")
            await until(lambda: lifecycle.vouched == 1, "and has read")
            backend.states["s0"] = OFF
            await nova.send(power_off("s0"))
            await until(lambda: seen.heard(0), "and hears")

    asyncio.run(main())


def test_a_queue_deleted_under_us_is_a_gap(rabbitmq: RabbitMQ) -> None:
    async def main() -> None:
        backend = Backend()
        async with (
            sender(rabbitmq.url) as nova,
            watching(backend, source(rabbitmq)) as (lifecycle, seen),
        ):
            await settled(lifecycle)
            calls = len(backend.calls)
            queue = await own_queue(rabbitmq)
            await asyncio.to_thread(rabbitmq.ctl, "delete_queue", queue)
            await until(lambda: len(backend.calls) > calls, "all is read again")
            await settled(lifecycle)
            backend.states["s0"] = OFF
            await nova.send(power_off("s0"))
            await until(lambda: seen.heard(0), "and it hears again")

    asyncio.run(main())


def test_a_connection_that_is_cut_is_a_gap(rabbitmq: RabbitMQ) -> None:
    async def main() -> None:
        backend = Backend()
        async with (
            sender(rabbitmq.url),
            watching(backend, source(rabbitmq)) as (lifecycle, seen),
        ):
            await settled(lifecycle)
            calls = len(backend.calls)
            await asyncio.to_thread(rabbitmq.ctl, "close_all_connections", "cut")
            await until(lambda: len(backend.calls) > calls, "all is read again")
            async with sender(rabbitmq.url) as other:
                await settled(lifecycle)
                backend.states["s0"] = OFF
                await other.send(power_off("s0"))
                await until(lambda: seen.heard(0), "and it hears again")

    asyncio.run(main())


@contextmanager
def burst(rabbitmq: RabbitMQ, count: int, nodes: int) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that sends so many events when it is given a line."""
    command = [sys.executable, "-m", "tests.contract.lifecycle.burst", rabbitmq.url]
    root = Path(__file__).resolve().parents[3]
    with subprocess.Popen(
        [*command, str(count), str(nodes)],
        cwd=root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        yield child


def go(child: subprocess.Popen[bytes]) -> int:
    """Let it send, and wait until it has."""
    child.communicate(b"go\n", timeout=180)
    return child.returncode


def test_ten_thousand_messages_at_once_block_nothing(rabbitmq: RabbitMQ) -> None:
    async def main() -> None:
        backend = Backend()
        lags: list[float] = []

        async def feel() -> None:
            while True:
                # What our own thread works meanwhile: the machine may hold anybody up.
                began_s = time.thread_time()
                await asyncio.sleep(0.01)
                lags.append(time.thread_time() - began_s)

        async with (
            sender(rabbitmq.url),
            watching(backend, source(rabbitmq, queue_length=20_000), nodes=10) as (lifecycle, _),
        ):
            await settled(lifecycle, 10)
            calls, began_s = len(backend.calls), time.monotonic()
            before = psutil.Process().memory_info().rss
            feeling = asyncio.create_task(feel())
            assert await asyncio.to_thread(go, child) == 0
            await until(lambda: lifecycle.counts["heard"] == 10_000, "all were heard")
            took_s = time.monotonic() - began_s
            feeling.cancel()
            grown = psutil.Process().memory_info().rss - before
            made = len(backend.calls) - calls
            lags.sort()
            p99 = lags[int(len(lags) * 0.99)]
            print(f"{took_s:.2f} s, lag p99 {p99 * 1e3:.0f} ms, {made} calls, {grown / 1e6:.1f} MB")
            assert lifecycle.counts["of_nobody"] == 5_000
            assert made <= 20 * took_s + 5, f"{made} calls in {took_s:.1f} s"
            assert grown < 50e6, f"{grown / 1e6:.0f} MB more"
            assert p99 < 0.5, f"the loop was {p99:.3f} s late"

    with burst(rabbitmq, 10_000, 20) as child:
        asyncio.run(main())


def test_what_the_broker_drops_is_asked_for(rabbitmq: RabbitMQ) -> None:
    """Slower than the news: the queue is bounded, and what it lost is found by reading."""

    async def main() -> None:
        backend = Backend()
        async with (
            sender(rabbitmq.url),
            watching(backend, source(rabbitmq, queue_length=100), nodes=3) as (lifecycle, seen),
        ):
            await settled(lifecycle, 3)
            backend.states["s2"] = OFF
            # Our loop stands still meanwhile: that is what the queue is for.
            assert go(child) == 0
            await until(lambda: lifecycle.counts["dropped"], "it is noticed")
            await until(lambda: seen.of(2, "ST-DOWN"), "it is found")
            assert not seen.last(2).authoritative, "nobody told"
            assert lifecycle.counts["heard"] < 5_000

    with burst(rabbitmq, 5_000, 2) as child:
        asyncio.run(main())


def test_the_second_broker_is_tried_when_the_first_is_dead(rabbitmq: RabbitMQ) -> None:
    async def main() -> None:
        backend = Backend()
        dead = f"amqp://{USER}:{PASSWORD}@127.0.0.1:{free_port()}/"
        async with (
            sender(rabbitmq.url),
            watching(backend, source(dead, rabbitmq)) as (lifecycle, _),
        ):
            await settled(lifecycle)

    asyncio.run(main())


def test_a_listener_that_never_speaks_is_given_up(rabbitmq: RabbitMQ) -> None:
    """Something accepts the connection and says nothing: no broker."""

    async def main() -> None:
        mute = socket.create_server(("127.0.0.1", 0))
        port = mute.getsockname()[1]
        backend = Backend()
        url = f"amqp://{USER}:{PASSWORD}@127.0.0.1:{port}/"
        async with (
            sender(rabbitmq.url),
            watching(backend, source(url, rabbitmq), interval_s=1.0) as (lifecycle, _),
        ):
            await until(lambda: backend.asked("s0") >= 3, "it is asked meanwhile")
            assert not lifecycle.listening
            await settled(lifecycle)
        mute.close()

    asyncio.run(main())


def test_a_wrong_password_is_told_without_it(rabbitmq: RabbitMQ) -> None:
    async def main() -> None:
        backend = Backend()
        url = f"amqp://{USER}:not-{PASSWORD}@127.0.0.1:{rabbitmq.port}/"
        with capture_logs() as logs:
            async with watching(backend, source(url), interval_s=0.5) as (lifecycle, seen):
                await until(
                    lambda: [e for e in logs if e["event"] == "not listening"], "it is told"
                )
                await until(lambda: len(seen.of(0, "ST-UP")) >= 3, "the node is asked")
                assert not lifecycle.listening
        told = next(e for e in logs if e["event"] == "not listening")
        assert "ACCESS_REFUSED" in told["reason"]
        assert told["broker"] == f"127.0.0.1:{rabbitmq.port}"
        assert PASSWORD not in str(logs)

    asyncio.run(main())


def test_an_exchange_that_is_missing_is_waited_for(rabbitmq: RabbitMQ) -> None:
    async def main() -> None:
        backend = Backend()
        name = "stacks-of-this-test"
        with capture_logs() as logs:
            async with (
                sender(rabbitmq.url) as nova,
                watching(backend, source(rabbitmq, exchanges=["nova", name]), interval_s=1.0) as (
                    lifecycle,
                    seen,
                ),
            ):
                await until(
                    lambda: [e for e in logs if "no such exchange" in e["event"]], "it is told"
                )
                await until(lambda: len(seen.of(0, "ST-UP")) >= 3, "all is asked for meanwhile")
                assert not seen.of(0, "EV-QUIET")
                backend.states["s0"] = OFF
                await nova.send(power_off("s0"))
                await until(lambda: seen.heard(0), "what there is is heard")
                async with sender(rabbitmq.url, name):
                    await until(lambda: lifecycle.listening, "it is found")
        assert sum("no such exchange" in e["event"] for e in logs) == 1

    asyncio.run(main())


def test_nothing_is_left_behind(rabbitmq: RabbitMQ) -> None:
    async def main() -> None:
        async with sender(rabbitmq.url), watching(Backend(), source(rabbitmq)) as (lifecycle, _):
            await settled(lifecycle)
            assert len(await asyncio.to_thread(ours, rabbitmq)) >= 2
        # The broker takes them away when it has seen that we are gone.
        await asyncio.to_thread(wait_for, lambda: ours(rabbitmq) == [])

    asyncio.run(main())


def test_narrow_permissions_suffice(rabbitmq: RabbitMQ) -> None:
    """The rights that the documentation asks for, and no others."""
    rabbitmq.ctl("add_user", "watcher", "pw")
    rabbitmq.ctl(
        "set_permissions", "watcher",
        r"^yaffle\..*", r"^(yaffle\..*|amq\.default)$", r"^(yaffle\..*|nova|heat)$",
    )  # fmt: skip

    async def main() -> None:
        backend = Backend()
        url = f"amqp://watcher:pw@127.0.0.1:{rabbitmq.port}/"
        async with (
            sender(rabbitmq.url) as nova,
            watching(backend, source(url)) as (lifecycle, seen),
        ):
            await settled(lifecycle)
            await nova.send(power_off("s0"))
            await until(lambda: seen.heard(0), "it hears")

    asyncio.run(main())
