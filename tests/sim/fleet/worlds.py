"""Plays worlds: one from a seed, or thousands on every core; a world that fails is told as a story.

python -m tests.sim.fleet.worlds --count 10000      as `make sim N=10000`
python -m tests.sim.fleet.worlds --seed 42          one again, as `make sim SEED=42`
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import sys
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextvars import Context
from dataclasses import dataclass

import structlog
from tests.metric_labels import sentences
from tests.sim.fleet import ending
from tests.sim.fleet.fleet import Fleet
from tests.sim.fleet.shapes import SHAPES, Shape, shape
from tests.sim.fleet.troubles import MIXES, Weather

from yaffle.engine.detection import cluster_snapshot
from yaffle.testing import run_virtual

CPU_S = 240.0
"""A world takes a second of CPU; only one that never ends is to be cut off, not one that is starved."""
BLOCK = 5
SHOWN = 120
"""Lines of the trace that are shown of a world that failed."""


@dataclass(slots=True)
class Told:
    """What became of one world."""

    seed: int
    took_s: float
    virtual_s: float = 0.0
    acts: int = 0
    admitted: int = 0
    longest_gap_s: float = 0.0
    error: str = ""


def play(seed: int, *, number: int | None = None, mix: str = "") -> Told:
    """Play one world of the shape that goes with its seed, or of another; never raises."""
    began_s = time.perf_counter()
    told = Told(seed, 0.0)
    fleets: list[Fleet] = []
    try:
        made = shape(seed % SHAPES if number is None else number)
        began_s = time.perf_counter()  # a shape is built once for many worlds
        known = set(cluster_snapshot._PARSED)
        run_virtual(lambda: _world(seed, made, mix, told, fleets), seed=seed, cpu_s=CPU_S)
        for key in set(cluster_snapshot._PARSED) - known:
            del cluster_snapshot._PARSED[
                key
            ]  # what operators wrote here is nothing to the next world
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - it is told, whatever it is
        told.error = _story(error, fleets)
    told.took_s = time.perf_counter() - began_s
    return told


async def _world(seed: int, made: Shape, mix: str, told: Told, fleets: list[Fleet]) -> None:
    rng = random.Random(f"world {seed}")
    async with asyncio.TaskGroup() as group:
        fleet = Fleet(made, rng, group)
        fleets.append(fleet)
        fleet.base.restore(fleet.shape.stored)
        fleet.base.clock.stepped_s = fleet.shape.built_s
        fleet.shape.furnish(fleet.world)
        judge = group.create_task(fleet.referee.watch(), name="referee", context=Context())
        for _ in range(rng.choice([1, 2, 2, 2, 3])):
            fleet.start()
        try:
            await Weather(fleet, mix).blow()
            await ending.is_good(fleet)
        finally:
            judge.cancel()
            for life in fleet.living:
                await fleet.kill(life)
            told.virtual_s = fleet.now_s
            told.acts, told.admitted = fleet.referee.acts, len(fleet.referee.admitted)
            told.longest_gap_s = fleet.referee.longest_gap_s
        assert [s for life in fleet.lives for s in sentences(life.ctx.metrics.registry)] == []
        if fleet.referee.broken:
            raise AssertionError(fleet.referee.broken[0])


def _story(error: BaseException, fleets: list[Fleet]) -> str:
    lines = [f"policy {c.name}: {c.document}" for f in fleets for c in f.shape.clusters]
    lines += [line for f in fleets for line in list(f.trace)[-SHOWN:]]
    lines += [line for f in fleets for line in ending.picture(f)]
    lines += [f"BROKEN: {b}" for f in fleets for b in f.referee.broken]
    if not any(f.referee.broken for f in fleets):
        lines += traceback.format_exception(error)
    return "\n".join(lines)


# --- many ------------------------------------------------------------------------------------------


def block(seeds: range) -> list[Told]:
    """Play some worlds in this process; those of one shape together, so that few build each."""
    quiet()
    gc.disable()  # a world's garbage goes with its loop; looking for it takes a tenth of the time
    try:
        return _all(seeds)
    finally:
        gc.enable()
        gc.collect()


def _all(seeds: range) -> list[Told]:
    return [play(seed) for seed in seeds]


def quiet() -> None:
    """Writing the engine's log costs half the time; YAFFLE_SIM_LOG=1 shows it."""
    if not os.environ.get("YAFFLE_SIM_LOG"):
        structlog.configure(
            processors=[_drop], wrapper_class=structlog.make_filtering_bound_logger(50)
        )


def _drop(_logger: object, _name: str, _event: object) -> str:
    raise structlog.DropEvent


def many(first: int, count: int, workers: int) -> Iterator[Told]:
    """Play `count` worlds from `first` on, on so many processes, in whatever order they end."""
    last, stride = first + count, BLOCK * SHAPES
    blocks = [
        range(start, min(start + stride, last), SHAPES)
        for begin in range(first, last, stride)
        for start in range(begin, min(begin + SHAPES, last))
    ]
    pool = ProcessPoolExecutor(max_workers=workers)
    try:
        for future in as_completed([pool.submit(block, b) for b in blocks]):
            yield from future.result()
    finally:
        pool.shutdown(cancel_futures=True)  # whoever has seen enough does not wait for the rest


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, default=None, help="one world again, told in full")
    parser.add_argument("--shape", type=int, default=None, help="of that one world")
    parser.add_argument("--mix", default="", choices=["", *MIXES], help="of troubles, of that one")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--failures", type=int, default=5, help="give up after so many")
    asked = parser.parse_args()
    if asked.seed is not None:
        return _one(asked.seed, asked.shape, asked.mix)
    began_s, done, failed = time.monotonic(), 0, 0
    acts, spent_s, gap_s = 0, 0.0, 0.0
    for told in many(asked.first, asked.count, asked.workers):
        done, acts, spent_s = done + 1, acts + told.acts, spent_s + told.took_s
        gap_s = max(gap_s, told.longest_gap_s)
        if told.error:
            failed += 1
            print(
                f"\n==== seed {told.seed} ====\n{told.error}\nplay it again: make sim SEED={told.seed}"
            )
        if done % 200 == 0 or done == asked.count or told.error:
            pace = done / (time.monotonic() - began_s)
            print(
                f"{done} of {asked.count} worlds, {failed} failed, {pace:.1f}/s"
                f" ({done / spent_s:.1f}/s a core), {acts} acts, longest gap {gap_s:.1f} s",
                flush=True,
            )
        if failed >= asked.failures:
            print("too many failures")
            break
    return 1 if failed else 0


def _one(seed: int, number: int | None, mix: str) -> int:
    quiet()
    told = play(seed, number=number, mix=mix)
    print(told.error or f"seed {seed}: nothing was broken")
    print(
        f"{told.took_s:.2f} s for {told.virtual_s:.0f} s, {told.admitted} recoveries, {told.acts} acts"
    )
    return 1 if told.error else 0


if __name__ == "__main__":
    sys.exit(main())
