"""The pace of a watch in virtual time: whom it asks and when, for whom it vouches, what overtakes."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import pytest
from tests.contract.lifecycle.stage import (
    KIND,
    OFF,
    UNCLEAR,
    UP,
    Backend,
    LoopClock,
    Seen,
    mode,
    target,
    targets,
)

from yaffle.drivers.detectors.lifecycle.channel_health import ChannelHealth
from yaffle.drivers.detectors.lifecycle.events import Subject
from yaffle.drivers.detectors.lifecycle.messages import Heard
from yaffle.drivers.detectors.lifecycle.read_scheduler import Waker
from yaffle.drivers.detectors.lifecycle.reading import Reader
from yaffle.drivers.detectors.lifecycle.watch import HEARD_S, Watch
from yaffle.ports import DriverContext
from yaffle.testing.loop import run_virtual

INTERVAL_S = 10.0
OFF_EVENT = Heard(
    event="compute.instance.power_off.end",
    word="POWER_OFF",
    subject=Subject.SERVER,
    ident="s0",
    state="stopped",
    publisher="compute.cmp1",
)
BLANK_EVENT = Heard(event="compute.instance.update", word="", subject=Subject.SERVER, ident="s0")


@dataclass
class World:
    backend: Backend
    channels: ChannelHealth
    watch: Watch
    waker: Waker
    seen: Seen

    def hear(self, heard: Heard, *numbers: int) -> None:
        for number in numbers:
            self.waker.wake(self.watch.nodes[target(number).node_id], heard)

    def listen(self) -> None:
        self.channels.heard("lab", self)

    def deafen(self) -> None:
        self.channels.lost("lab", self)


@asynccontextmanager
async def world(
    backend: Backend, nodes: int = 1, *, sweep_s: float = 600.0, listening: bool = True
) -> AsyncIterator[World]:
    clock = LoopClock()
    reader = Reader(
        DriverContext(clock=clock, state_dir=Path(), profiles={KIND: backend})  # type: ignore[dict-item]
    )
    watches: list[Watch] = []
    channels = ChannelHealth(["lab"], lambda: [w.ring() for w in watches] and None)
    watch = Watch("w", clock=clock, reader=reader, channels=channels, rng=Random(1))
    watches.append(watch)
    waker = Waker(clock, reader)
    seen = Seen()
    stage = World(backend, channels, watch, waker, seen)
    if listening:
        stage.listen()
    watch.aim(targets(nodes), mode(sweep_s), INTERVAL_S, seen)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(watch.run()), group.create_task(waker.run())]
        yield stage
        for task in tasks:
            task.cancel()


def test_the_baseline_is_one_reading_of_all() -> None:
    async def main() -> None:
        async with world(Backend(), 2500) as w:
            await asyncio.sleep(1)
            assert sorted(map(len, w.backend.calls)) == [500, 1000, 1000]
            assert len(w.seen.all) == 2500
            assert not any(o.authoritative for o in w.seen.all)

    run_virtual(main)


def test_silence_costs_nothing_and_a_sweep_comes_in_time() -> None:
    async def main() -> None:
        async with world(Backend(), 3) as w:
            await asyncio.sleep(520)
            assert len(w.backend.calls) == 1
            quiet = w.seen.of(1, "EV-QUIET")
            assert 45 <= len(quiet) <= 58
            gaps = [b.at_us - a.at_us for a, b in itertools.pairwise(quiet)]
            assert max(gaps) <= 1.11 * INTERVAL_S * 1e6, "freshness holds"
            await asyncio.sleep(100)
            assert len(w.backend.calls) == 2
            assert len(w.backend.calls[1]) == 3

    run_virtual(main)


def test_a_reading_and_the_silence_after_it_are_half_an_interval_apart_at_least() -> None:
    """Two passes at one moment would be a rise of two that nobody has waited for."""

    async def main() -> None:
        async with world(Backend()) as w:
            await asyncio.sleep(9)
            w.hear(BLANK_EVENT, 0)
            await asyncio.sleep(600)
            found = w.seen.of(0)
            for before, after in itertools.pairwise(found):
                if after.code == "EV-QUIET":
                    assert after.at_us - before.at_us >= INTERVAL_S / 2 * 1e6 * 0.99

    run_virtual(main)


def test_polled_beside_it_all_are_read_every_interval() -> None:
    async def main() -> None:
        async with world(Backend(), 2, sweep_s=INTERVAL_S) as w:
            await asyncio.sleep(100)
            assert 9 <= w.backend.asked("s0") <= 12

    run_virtual(main)


@pytest.mark.parametrize("reading", [OFF, UNCLEAR], ids=["down", "unclear"])
def test_who_is_not_up_is_read_every_interval(reading: object) -> None:
    async def main() -> None:
        async with world(Backend(states={"s1": reading}), 2) as w:  # type: ignore[dict-item]
            await asyncio.sleep(100)
            assert w.backend.asked("s0") == 1
            assert 9 <= w.backend.asked("s1") <= 12
            assert not w.seen.of(1, "EV-QUIET")

    run_virtual(main)


def test_while_deaf_all_are_read_every_interval_and_once_more_when_it_is_over() -> None:
    async def main() -> None:
        async with world(Backend(), listening=False) as w:
            await asyncio.sleep(100)
            assert 9 <= w.backend.asked("s0") <= 12
            assert not w.seen.of(0, "EV-QUIET")
            before = w.backend.asked("s0")
            w.listen()
            await asyncio.sleep(0.1)
            assert w.backend.asked("s0") == before + 1, "at once"
            await asyncio.sleep(100)
            assert w.backend.asked("s0") == before + 1
            assert len(w.seen.of(0, "EV-QUIET")) >= 8
            w.deafen()
            quiet = len(w.seen.of(0, "EV-QUIET"))
            await asyncio.sleep(35)
            assert w.backend.asked("s0") >= before + 4
            assert len(w.seen.of(0, "EV-QUIET")) == quiet

    run_virtual(main)


def test_a_reading_begun_before_the_gap_vouches_for_nothing() -> None:
    async def main() -> None:
        async with world(Backend(delay_s=2)) as w:
            await asyncio.sleep(1)
            w.channels.missed()
            await asyncio.sleep(0.5)
            assert w.backend.asked("s0") == 1
            await asyncio.sleep(4)
            assert w.backend.asked("s0") == 2

    run_virtual(main)


def test_a_reading_begun_before_the_gap_does_not_vouch_after_it() -> None:
    async def main() -> None:
        async with world(Backend(delay_s=6)) as w:
            await asyncio.sleep(5)
            w.channels.missed()
            await asyncio.sleep(6.5)
            assert w.backend.running == 1, "it is being read again"
            assert w.seen.codes(0) == ["ST-UP"]
            await asyncio.sleep(20)
            assert w.seen.of(0, "EV-QUIET")

    run_virtual(main)


def test_an_event_during_a_reading_is_answered_by_the_next_one() -> None:
    async def main() -> None:
        async with world(Backend(delay_s=1)) as w:
            await asyncio.sleep(2)
            w.hear(BLANK_EVENT, 0)
            await asyncio.sleep(0.5)
            # It is answered "up" already, though the answer is still on its way.
            w.backend.states["s0"] = OFF
            w.hear(OFF_EVENT, 0)
            await asyncio.sleep(3)
            assert w.seen.last(0).code == "ST-DOWN"
            assert w.seen.last(0).authoritative
            assert w.seen.last(0).hint is not None

    run_virtual(main)


def test_what_is_forgotten_is_asked_again_and_an_answer_from_before_is_dropped() -> None:
    async def main() -> None:
        async with world(Backend(delay_s=2)) as w:
            await asyncio.sleep(1)
            w.watch.forget()
            await asyncio.sleep(1.5)
            assert w.seen.all == [], "asked before we were blind"
            await asyncio.sleep(5)
            assert w.seen.codes(0) == ["ST-UP"]
            assert w.backend.asked("s0") == 2

    run_virtual(main)


def test_a_new_target_is_read_at_once_and_alone() -> None:
    async def main() -> None:
        async with world(Backend(), 2) as w:
            await asyncio.sleep(1)
            w.watch.aim(targets(3), mode(600.0), INTERVAL_S, w.seen)
            await asyncio.sleep(1)
            assert w.backend.calls[1:] == [["s2"]]
            copy = replace(target(0), physical_id="another")
            w.watch.aim([copy, *targets(3)[1:]], mode(600.0), INTERVAL_S, w.seen)
            await asyncio.sleep(1)
            assert w.backend.calls[2:] == [["another"]], "another copy is another node"

    run_virtual(main)


def test_an_event_that_finds_it_unclear_stays_until_it_is_clear() -> None:
    async def main() -> None:
        async with world(Backend(states={"s0": UNCLEAR})) as w:
            await asyncio.sleep(1)
            w.hear(OFF_EVENT, 0)
            await asyncio.sleep(2)
            assert w.seen.last(0).code == "ST-UNCLEAR"
            w.backend.states["s0"] = replace(OFF, event="")
            await asyncio.sleep(12)
            first = w.seen.of(0, "ST-DOWN")[0]
            assert first.authoritative
            assert first.hint is not None
            assert (first.hint.event, first.hint.publisher) == ("POWER_OFF", "compute.cmp1")
            await asyncio.sleep(12)
            assert not w.seen.last(0).authoritative, "answered once, it says no more"

    run_virtual(main)


def test_an_event_does_not_stay_for_ever() -> None:
    async def main() -> None:
        async with world(Backend(states={"s0": UNCLEAR})) as w:
            await asyncio.sleep(1)
            w.hear(OFF_EVENT, 0)
            await asyncio.sleep(HEARD_S + 20)
            w.backend.states["s0"] = OFF
            await asyncio.sleep(12)
            assert w.seen.last(0).code == "ST-DOWN"
            assert not w.seen.last(0).authoritative

    run_virtual(main)


def test_many_events_about_one_node_are_one_reading_and_one_after() -> None:
    async def main() -> None:
        async with world(Backend(delay_s=1)) as w:
            await asyncio.sleep(2)
            for _ in range(50):
                w.hear(BLANK_EVENT, 0)
                await asyncio.sleep(0.01)
            await asyncio.sleep(5)
            assert w.backend.asked("s0") == 1 + 2
            assert w.backend.running_max == 1

    run_virtual(main)


def test_the_word_of_what_happened_outlives_the_wordless_update_after_it() -> None:
    async def main() -> None:
        async with world(Backend()) as w:
            await asyncio.sleep(1)
            w.backend.states["s0"] = replace(OFF, event="")
            w.hear(OFF_EVENT, 0)
            w.hear(BLANK_EVENT, 0)
            await asyncio.sleep(1)
            found = w.seen.last(0)
            assert found.hint is not None
            assert found.hint.event == "POWER_OFF"
            assert found.hint.publisher == "compute.cmp1"

    run_virtual(main)


def test_a_slow_sweep_does_not_overrule_what_an_event_found_meanwhile() -> None:
    async def main() -> None:
        async with world(Backend(), sweep_s=100) as w:
            await asyncio.sleep(2)
            # The sweep asks, and is answered "up" seconds later; the guest dies in between.
            w.backend.delay_s = 5
            while len(w.backend.calls) == 1:
                await asyncio.sleep(0.5)
            w.backend.delay_s = 0
            w.backend.states["s0"] = OFF
            w.hear(OFF_EVENT, 0)
            await asyncio.sleep(1)
            assert w.seen.last(0).code == "ST-DOWN"
            await asyncio.sleep(6)
            assert "ST-UP" not in w.seen.codes(0)[w.seen.codes(0).index("ST-DOWN") :]

    run_virtual(main)


def test_a_backend_that_takes_its_time_delays_no_vouching() -> None:
    async def main() -> None:
        async with world(Backend(states={"s1": OFF}), 2) as w:
            await asyncio.sleep(1)
            w.backend.delay_s = 1000
            await asyncio.sleep(100)
            assert len(w.seen.of(0, "EV-QUIET")) >= 8
            assert {o.code for o in w.seen.of(1)[1:]} == {"ST-TIMEOUT"}

    run_virtual(main)


def test_a_slow_kind_delays_no_other() -> None:
    async def main() -> None:
        slow, quick = Backend(delay_s=1000), Backend()
        clock = LoopClock()
        reader = Reader(
            DriverContext(
                clock=clock,
                state_dir=Path(),
                profiles={KIND: quick, "slow-1.0": slow},  # type: ignore[dict-item]
            )
        )
        waker, seen = Waker(clock, reader), Seen()
        channels = ChannelHealth([], lambda: None)
        watch = Watch("w", clock=clock, reader=reader, channels=channels, rng=Random(1))
        watch.aim(
            [target(0), *(target(n, kind="slow-1.0") for n in range(1, 6))],
            mode(), INTERVAL_S, seen,
        )  # fmt: skip
        async with asyncio.TaskGroup() as group:
            task = group.create_task(waker.run())
            for number in range(1, 6):
                waker.wake(watch.nodes[target(number).node_id], OFF_EVENT)
                await asyncio.sleep(0.2)
            assert len(slow.calls) == 4, "no more batches at once"
            waker.wake(watch.nodes[target(0).node_id], OFF_EVENT)
            await asyncio.sleep(0.2)
            assert seen.codes(0) == ["ST-UP"]
            await asyncio.sleep(60)
            assert {o.code for o in seen.of(5)} == {"ST-TIMEOUT"}
            task.cancel()

    run_virtual(main)


def test_after_the_end_nothing_is_told() -> None:
    async def main() -> None:
        async with world(Backend(delay_s=2)) as w:
            await asyncio.sleep(1)
            w.hear(OFF_EVENT, 0)
            w.watch.end()
            await asyncio.sleep(10)
            assert w.seen.all == []

    run_virtual(main)


def test_an_up_node_is_up_again() -> None:
    async def main() -> None:
        async with world(Backend(states={"s0": OFF})) as w:
            await asyncio.sleep(1)
            w.backend.states["s0"] = UP
            w.hear(BLANK_EVENT, 0)
            await asyncio.sleep(1)
            assert (w.seen.last(0).code, w.seen.last(0).authoritative) == ("ST-UP", True)
            await asyncio.sleep(20)
            assert w.seen.last(0).code == "EV-QUIET"

    run_virtual(main)
