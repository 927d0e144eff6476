"""What the tests of LIFECYCLE_EVENTS stand on: a backend that does as told, and who sends its news."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractExchange
from tests.servers.rabbitmq import RabbitMQ
from tests.waiting import wait_until

from yaffle.drivers.detectors.lifecycle import LifecycleDetector
from yaffle.model.health import Observation
from yaffle.model.ids import ModeKey, NodeId
from yaffle.model.operations import Actor, Cause, Reading, Target
from yaffle.model.policy import DetectionMode, ModeType
from yaffle.ports import DriverContext

KIND = "made.up-1.0"
KEY = ModeKey("0:LIFECYCLE_EVENTS")
PATIENCE_S = 60.0


class RealClock:
    def now_us(self) -> int:
        return time.time_ns() // 1000

    def monotonic_s(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class LoopClock:
    """The time of the running loop, which may be a virtual one."""

    def now_us(self) -> int:
        return 1_800_000_000_000_000 + int(self.monotonic_s() * 1e6)

    def monotonic_s(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


UP = Reading(exists=True, up=True, backend_status="ACTIVE", detail="")
OFF = Reading(
    exists=True, up=False, backend_status="SHUTOFF", detail="power off", event="POWER_OFF"
)
GONE = Reading(exists=False, up=False, backend_status="404", detail="no such server")
UNCLEAR = Reading(exists=True, up=None, backend_status="REBOOT", detail="a task is under way")


@dataclass
class Backend:
    """A profile by duck typing: nodes are up unless told otherwise."""

    states: dict[str, Reading] = field(default_factory=dict)
    """By physical id."""
    delay_s: float = 0.0
    fault: Exception | None = None
    calls: list[list[str]] = field(default_factory=list)
    """Physical ids of each `read`."""
    running: int = 0
    running_max: int = 0

    async def read(self, targets: Sequence[Target], *, deadline_s: float) -> Sequence[Reading]:
        self.calls.append([t.physical_id for t in targets])
        answers = [self.states.get(t.physical_id, UP) for t in targets]
        self.running += 1
        self.running_max = max(self.running, self.running_max)
        try:
            await asyncio.sleep(self.delay_s)
        finally:
            self.running -= 1
        if self.fault is not None:
            raise self.fault
        return answers

    def asked(self, ident: str) -> int:
        return sum(ident in call for call in self.calls)


@dataclass
class Traced(Backend):
    """One that keeps a record of who asked for what."""

    causes: dict[str, Cause | Exception | float] = field(default_factory=dict)
    """By physical id; a number is how long there is no answer."""
    traces: list[str] = field(default_factory=list)

    async def cause(self, target: Target, *, deadline_s: float) -> Cause:
        self.traces.append(target.physical_id)
        told = self.causes.get(target.physical_id, Cause(actor=Actor.NOBODY, detail="nobody"))
        if isinstance(told, float):
            await asyncio.sleep(told)
            return Cause(actor=Actor.NOBODY, detail="late")
        if isinstance(told, Exception):
            raise told
        return told


def mode(sweep_s: float | None = None) -> DetectionMode:
    return DetectionMode(key=KEY, type=ModeType.LIFECYCLE_EVENTS, sweep_s=sweep_s)


def target(number: int | str, *, kind: str = KIND, **attributes: object) -> Target:
    return Target(
        node_id=NodeId(f"n{number}"),
        name=f"node-{number}",
        physical_id=f"s{number}",
        profile_type=kind,
        spec={},
        attributes=attributes,
    )


def targets(count: int) -> list[Target]:
    return [target(n) for n in range(count)]


def detector(
    backend: object,
    sources: Mapping[str, Mapping[str, object]] | None = None,
    *,
    clock: object = None,
    **others: object,
) -> LifecycleDetector:
    settings: dict[str, object] = {} if sources is None else {"sources": sources}
    return LifecycleDetector(
        DriverContext(
            clock=clock or RealClock(),  # type: ignore[arg-type]
            state_dir=Path("/nowhere"),
            settings=settings,
            profiles={KIND: backend, **others},  # type: ignore[dict-item]
        )
    )


@dataclass
class Seen:
    """A sink that keeps what it was told."""

    all: list[Observation] = field(default_factory=list)

    def __call__(self, batch: Sequence[Observation]) -> None:
        self.all.extend(batch)

    def of(self, number: int | str, code: str = "") -> list[Observation]:
        return [o for o in self.all if o.node_id == f"n{number}" and code in {"", o.code}]

    def heard(self, number: int | str) -> list[Observation]:
        """What an event has woken: the last word is soon that of the next interval."""
        return [o for o in self.of(number) if o.authoritative]

    def codes(self, number: int | str) -> list[str]:
        return [o.code for o in self.of(number)]

    def last(self, number: int | str) -> Observation:
        return self.of(number)[-1]


async def until(true: Callable[[], object], what: str, within_s: float = PATIENCE_S) -> None:
    """Wait until it is so; the test fails with `what` where that takes too long."""
    end_s = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < end_s, f"not within {within_s:g} s: {what}"
        await asyncio.sleep(0.02)


# --- notifications -------------------------------------------------------------------------------


def body(event: str, payload: object, publisher: str = "compute.cmp1", **context: object) -> bytes:
    """Return a notification as oslo.messaging puts it on the wire."""
    inner = {
        "message_id": "m",
        "publisher_id": publisher,
        "event_type": event,
        "priority": "INFO",
        "payload": payload,
        "timestamp": "2026-11-20 09:23:21.826191",
        **{f"_context_{key}": value for key, value in context.items()},
    }
    wrapped = {"oslo.version": "2.0", "oslo.message": json.dumps(inner)}
    return json.dumps(wrapped).encode()


def power_off(ident: str) -> bytes:
    return body(
        "compute.instance.power_off.end", {"instance_id": ident, "state": "stopped", "host": "cmp1"}
    )


def power_on(ident: str) -> bytes:
    return body("compute.instance.power_on.end", {"instance_id": ident, "state": "active"})


class Sender:
    """Nova, as far as a broker knows of it: its exchange and what it publishes."""

    def __init__(self, channel: AbstractChannel, exchanges: Mapping[str, AbstractExchange]) -> None:
        self.channel, self.exchanges = channel, exchanges

    async def send(
        self, *bodies: bytes, key: str = "notifications.info", exchange: str = "nova"
    ) -> None:
        for one in bodies:
            await self.exchanges[exchange].publish(aio_pika.Message(one), routing_key=key)


@asynccontextmanager
async def sender(url: str, *exchanges: str, **options: Any) -> AsyncIterator[Sender]:
    connection = await aio_pika.connect(url, timeout=60, **options)
    async with connection:
        channel = await connection.channel(publisher_confirms=False)
        declared = {
            name: await channel.declare_exchange(name, aio_pika.ExchangeType.TOPIC)
            for name in exchanges or ("nova",)
        }
        yield Sender(channel, declared)


@asynccontextmanager
async def watching(
    backend: object,
    sources: Mapping[str, Mapping[str, object]],
    *,
    nodes: int = 1,
    interval_s: float = 60.0,
    sweep_s: float = 600.0,
) -> AsyncIterator[tuple[LifecycleDetector, Seen]]:
    """Watch that many nodes; afterwards nothing of it runs any more."""
    seen = Seen()
    lifecycle = detector(backend, sources)
    lifecycle.watch("w", targets(nodes), mode(sweep_s), interval_s=interval_s, sink=seen)
    try:
        yield lifecycle, seen
    finally:
        lifecycle.unwatch("w")
        await ended()


async def settled(lifecycle: LifecycleDetector, nodes: int = 1) -> None:
    """Wait until it listens and has read every node since; that many of them are up."""
    await until(lambda: lifecycle.listening, "it listens")
    # Who is down was read before it listened as well, and the reading afterwards may be under way.
    await until(lambda: lifecycle.behind == 0, "all nodes were read")
    await until(lambda: lifecycle.vouched == nodes, f"{nodes} are up")


async def own_queue(rabbitmq: RabbitMQ) -> str:
    """Return the name of our queue; the broker lists that of a test before for a moment still."""

    def own() -> list[str]:
        lines = rabbitmq.ctl("list_queues", "name").splitlines()
        ours = [line.split()[0] for line in lines if line.startswith("yaffle.lifecycle.")]
        return [name for name in ours if not name.endswith(".dropped")]

    (name,) = await asyncio.to_thread(wait_until, own, lambda names: len(names) == 1)
    return name


async def ended() -> None:
    """Wait until nothing of the detector runs any more."""
    await until(
        lambda: not [t for t in asyncio.all_tasks() if "lifecycle events" in t.get_name()],
        "its owner has ended",
    )


def source(*brokers: RabbitMQ | str, **more: object) -> dict[str, dict[str, object]]:
    urls = [one if isinstance(one, str) else one.url for one in brokers]
    return {"lab": {"urls": urls, **more}}
