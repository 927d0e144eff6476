"""A thousand nodes failing in the same second: held by default, and healed if the limits allow it.

    python bench/burst.py [--nodes 1000] [--profile]

One cluster, the real engine and store, a backend whose reboot takes 50 ms. First with the guards as
they are by default: all are held. Then with every limit open: all are queued, claimed by the 64
workers as they come free, and healed. Both times the pace of detection and the engine's lease must
not suffer. The main figure is the engine's CPU per recovery: it bounds how many a second there can
be, whatever the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import itertools
import logging
import os
import pstats
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import structlog
from bench._engine import a_kit
from bench._fleet import Flags, Instant, document, fill
from bench._measure import cpu_s
from bench._python import described, system_python
from sqlalchemy import func, select

from yaffle.engine.engine import Engine
from yaffle.engine.runtime.clock import SystemClock
from yaffle.store.database import open_store
from yaffle.store.tables import actions, incidents

INTERVAL_S, LATE_S = 2.0, 1.0
BOUND_S = 180.0
TARGET_PER_S = 15.0
missed: list[str] = []


class Paced(Instant):
    """Also notes when it was asked about a whole cluster."""

    def __init__(self, flags: Flags) -> None:
        super().__init__(flags)
        self.asked: list[float] = []

    async def check(self, targets, mode, *, deadline_s):
        """As Instant."""
        if len(targets) > 1:
            self.asked.append(time.monotonic())
        return await super().check(targets, mode, deadline_s=deadline_s)

    def longest_gap_s(self) -> float:
        """The longest time between two passes since the last call."""
        found = max((b - a for a, b in itertools.pairwise(self.asked)), default=0.0)
        self.asked = self.asked[-1:]
        return found


def judged(what: str, value: float, bound: float, word: str) -> None:
    """A figure beside its bound."""
    met = value <= bound
    print(f"  {what:40s} {value:8.2f}   {word} {bound:g}   {'met' if met else 'MISSED'}")
    if not met:
        missed.append(what)


async def burst(folder: Path, count: int, *, unhealthy: str, profiler) -> None:
    """Fail all at once and wait until the last has been dealt with."""
    clock, flags = SystemClock(), Flags(folder / "flags", count)
    opened = unhealthy == "100%"
    parsed = document(
        interval=INTERVAL_S, fall=1, word="recover", unhealthy=unhealthy, in_flight=count
    )
    store = await asyncio.to_thread(open_store, f"sqlite:///{folder}/b.db", clock=clock)
    async with store:
        await store.write(lambda c: fill(c, count, parsed, each=count), timeout_s=60)
        ctx = a_kit(store, clock, flags, lease=10.0, takes_s=0.05, alone=True)
        detector = Paced(flags)
        ctx.drivers.detectors["NODE_STATUS_POLLING"] = detector  # type: ignore[index]
        engine = Engine(ctx)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(engine.run())
            while len(detector.asked) < 4:
                await asyncio.sleep(0.1)
            first, calm = engine.session, detector.longest_gap_s()
            if profiler is not None:
                profiler.enable()
            began, used = time.monotonic(), cpu_s(os.getpid())
            for number in range(count):
                flags.set(number, down=True)
            times = await until_dealt_with(store, count, opened=opened)
            spent = cpu_s(os.getpid()) - used
            if profiler is not None:
                profiler.disable()
            storm, same = detector.longest_gap_s(), engine.session is first
            running.cancel()
    told = ", ".join(f"{word} {at - began:.1f} s" for word, at in times.items())
    print(f"max_unhealthy {unhealthy}: {told}")
    print(
        f"  {spent / count * 1e3:.1f} ms CPU per node; "
        f" longest pause between passes {storm:.2f} s ({calm:.2f} s before)"
    )
    judged(
        "longest pause between passes (s)",
        storm,
        INTERVAL_S * 1.1 + LATE_S,
        "interval, jitter, 1 s =",
    )
    if not same:
        missed.append("the session was lost")
    last = max(times.values()) - began
    if last >= BOUND_S:
        missed.append("not all dealt with")
    if opened:
        judged("seconds per 100 recoveries", last / count * 100, 100 / TARGET_PER_S, "target")


async def until_dealt_with(store, count: int, *, opened: bool) -> dict[str, float]:
    """When the first and the last node was held, or queued, claimed and healed."""
    times: dict[str, float] = {}
    began = time.monotonic()
    while time.monotonic() - began < BOUND_S:
        await asyncio.sleep(0.2)
        held, queued, unclaimed, ended = await store.read(state)
        now = time.monotonic()
        for word, reached in (
            ("first held", held > 0 and not opened), ("all held", held == count),
            ("first queued", queued > 0), ("all queued", queued == count),
            ("all claimed", queued == count and not unclaimed), ("all healed", ended == count),
        ):  # fmt: skip
            if reached:
                times.setdefault(word, now)
        if ("all healed" if opened else "all held") in times:
            return times
    times["given up after"] = time.monotonic()
    return times


def state(conn) -> tuple[int, int, int, int]:
    """Nodes held, recoveries in all, those that nobody has claimed, those that succeeded."""
    found = dict(
        conn.execute(select(actions.c.status, func.count()).group_by(actions.c.status)).all()
    )
    held = conn.execute(select(func.count()).where(incidents.c.state == "held")).scalar_one()
    return held, sum(found.values()), found.get("READY", 0), found.get("SUCCEEDED", 0)


def main() -> None:
    """Measure and print."""
    system_python()
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--nodes", type=int, default=1000)
    options.add_argument("--profile", action="store_true", help="print where the time goes")
    chosen = options.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    print(described())
    print(
        f"{chosen.nodes} nodes of one cluster fail in the same second, every {INTERVAL_S:g} s, fall 1"
    )
    profiler = cProfile.Profile() if chosen.profile else None
    for unhealthy in ("40%", "100%"):
        with tempfile.TemporaryDirectory() as place:
            asyncio.run(burst(Path(place), chosen.nodes, unhealthy=unhealthy, profiler=profiler))
    if profiler is not None:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(40)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
