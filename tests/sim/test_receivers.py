"""A receiver that is away or slow keeps nobody else waiting, and hears each story in its order."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any

from tests.sim.stage import Stage, stage

from yaffle.engine.queries.history import History
from yaffle.model.authz import LOCAL
from yaffle.model.operations import Delivery
from yaffle.store import events
from yaffle.testing import run_virtual


class Receiver:
    """Takes each message after the next pause; None hangs until the deadline."""

    type = "own"

    def __init__(self, s: Stage, pauses: Iterator[float | None]) -> None:
        self._s, self._pauses = s, pauses
        self.got: list[tuple[float, Any]] = []

    async def send(self, message: Any, *, deadline_s: float) -> tuple[Delivery, str]:
        pause_s = next(self._pauses)
        if pause_s is None:
            await asyncio.sleep(deadline_s - 0.1)
            return Delivery.RETRY, "no answer"
        await asyncio.sleep(pause_s)
        self.got.append((self._s.clock.monotonic_s(), message))
        return Delivery.ACCEPTED, ""


class Moody:
    """Refuses one message in five for now, by chance."""

    def __init__(self, s: Stage) -> None:
        self._rng, self.refused = random.Random(7), 0
        self.got: list[Any] = []

    async def send(self, message: Any, *, deadline_s: float) -> tuple[Delivery, str]:
        if self._rng.random() < 0.2:
            self.refused += 1
            return Delivery.RETRY, "503"
        self.got.append(message)
        return Delivery.ACCEPTED, ""


def forever(*pauses: float | None) -> Iterator[float | None]:
    while True:
        yield from pauses


def install(s: Stage, name: str, *pauses: float | None) -> Receiver:
    drivers: Any = s.living[0].ctx.drivers
    receiver = Receiver(s, forever(*pauses))
    drivers.notifiers[name] = receiver
    return receiver


async def write(s: Stage, messages: list[tuple[str, str]]) -> None:
    """Leave messages in the outbox: receiver and incident of each."""

    def work(conn: Any) -> None:
        for number, (name, incident) in enumerate(messages):
            about = events.Subject(otype="NODE", oid="x", incident_id=incident)
            body = {"incident": incident, "number": number}
            events.append(
                conn, about, at_us=s.clock.now_us(), action="A", status="s", reason="", data={},
                notify=[(name, "incident.opened", body)],
            )  # fmt: skip

    await s.store.write(work)


def lonely(story: Any) -> None:
    """Tell the story to an engine without a cluster."""

    async def main() -> None:
        async with stage(1) as s:
            s.start()
            await s.clock.sleep(1)
            await story(s)

    run_virtual(main, seed=1, cpu_s=60)


def test_a_hanging_receiver_with_2000_messages_keeps_nobody_waiting() -> None:
    async def story(s: Stage) -> None:
        install(s, "dead", None)
        well = install(s, "well", 0.01)
        await write(s, [("dead", f"i{n}") for n in range(2000)] + [("well", "i")] * 20)
        await s.clock.sleep(20)
        assert len(well.got) == 20

    lonely(story)


def test_what_was_not_accepted_is_listed_first() -> None:
    async def story(s: Stage) -> None:
        install(s, "well", 0.01)
        await write(s, [("well", f"i{n}") for n in range(30)])
        await s.clock.sleep(5)
        install(s, "dead", None)
        await write(s, [("dead", "i")] * 3)
        listed = await History(s.ctx).outbox(LOCAL, limit=5)
        assert [m["notifier"] for m in listed] == ["dead"] * 3 + ["well"] * 2
        seqs = [m["seq"] for m in listed]
        assert (seqs[:3], seqs[3:]) == (sorted(seqs[:3]), sorted(seqs[3:]))

    lonely(story)


def test_messages_of_one_incident_arrive_in_order() -> None:
    async def story(s: Stage) -> None:
        slow = install(s, "slow", 3.0, 0.01, 0.5, 0.01)
        await write(s, [("slow", f"i{n % 3}") for n in range(30)])
        await s.clock.sleep(120)
        assert len(slow.got) == 30
        for incident in ("i0", "i1", "i2"):
            numbers = [m.body["number"] for _, m in slow.got if m.body["incident"] == incident]
            assert numbers == sorted(numbers)
        assert slow.got[9][0] - slow.got[0][0] < 5, "incidents do not wait for each other"

    lonely(story)


def test_the_last_word_of_an_incident_is_its_last_word_though_a_fifth_is_refused() -> None:
    async def story(s: Stage) -> None:
        drivers: Any = s.living[0].ctx.drivers
        drivers.notifiers["moody"] = moody = Moody(s)
        await write(s, [("moody", f"i{n % 40}") for n in range(160)])
        await s.clock.sleep(600)
        assert moody.refused > 20
        for n in range(40):
            heard = [m for m in moody.got if m.body["incident"] == f"i{n}"]
            assert [m.body["number"] for m in heard] == [n, n + 40, n + 80, n + 120]
            assert [m.sequence for m in heard] == sorted(m.sequence for m in heard)

    lonely(story)
