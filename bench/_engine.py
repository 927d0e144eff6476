"""One engine process of a bench: the real engine and store, a detector that answers at once.

    python -m bench._engine URL FLAGS [--core N] [--lease S] [--takes S] [--profile FILE]

Prints a line of JSON every second: checks made, watches, nodes seen, times it was blind.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import json
import logging
import os
import pstats
import random
import signal
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

import structlog
from bench._fleet import Flags, Instant, Reboots

from yaffle.config import EngineSettings
from yaffle.core.planning.budgets import BudgetLimit, Scope
from yaffle.engine.engine import Engine
from yaffle.engine.runtime import gc_tuning
from yaffle.engine.runtime.change_poller import ChangePoller
from yaffle.engine.runtime.clock import SystemClock
from yaffle.engine.runtime.context import Drivers, EngineContext, Signals
from yaffle.engine.runtime.metrics import Metrics
from yaffle.store.database import open_store


class EngineProcess:
    """The same seen from the bench that started it."""

    def __init__(self, url: str, flags: Path, *options: str) -> None:
        self._told = flags.with_name(f"engine-{uuid.uuid4()}.log")
        with self._told.open("wb") as out:
            self._running = subprocess.Popen(
                [
                    "setpriv", "--pdeathsig", "KILL",
                    sys.executable, "-m", "bench._engine", url, str(flags), *options,
                ],
                stdout=out, stderr=None, cwd=Path(__file__).resolve().parents[1],
            )  # fmt: skip
        self.pid = self._running.pid

    @property
    def state(self) -> dict[str, float]:
        """What it said last; empty before the first word."""
        lines = self._told.read_text().splitlines(keepends=True)
        whole = [line for line in lines if line.endswith("\n")]
        return json.loads(whole[-1]) if whole else {}

    def kill(self) -> None:
        """kill -9."""
        self._running.kill()
        self._running.wait()

    def stop(self) -> None:
        """Stop cleanly."""
        if self._running.poll() is None:
            self._running.send_signal(signal.SIGTERM)
            try:
                self._running.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()


def wait(what, bound_s: float, why: str) -> float:
    """Poll until `what()`; return the seconds that it took."""
    began = time.monotonic()
    while not what():
        if time.monotonic() - began > bound_s:
            raise SystemExit(f"not within {bound_s:g} s: {why}")
        time.sleep(0.1)
    return time.monotonic() - began


def a_kit(
    store, clock, flags: Flags, *, lease: float, takes_s: float, alone: bool
) -> EngineContext:
    """Everything real but the backend; budgets that nothing exhausts."""
    unlimited = BudgetLimit(max_in_flight=10**6, burst=10**6, per_hour=1e9)
    return EngineContext(
        store=store, clock=clock,
        drivers=Drivers(
            profiles={"bench-1.0": Reboots(flags, takes_s)},  # type: ignore[dict-item]
            detectors={"NODE_STATUS_POLLING": Instant(flags)},
        ),
        settings=EngineSettings(lease=lease), budgets=dict.fromkeys(Scope, unlimited),
        signals=Signals(), rng=random.Random(os.getpid()), new_id=lambda: str(uuid.uuid4()),
        host=socket.gethostname(), pid=os.getpid(), metrics=Metrics(), alone=alone,
    )  # fmt: skip


async def live(chosen: argparse.Namespace) -> None:
    """Run until told to stop."""
    clock, flags = SystemClock(), Flags(Path(chosen.flags))
    embedded = chosen.url.startswith("sqlite")
    store = await asyncio.to_thread(open_store, chosen.url, clock=clock, with_engine_lock=embedded)
    async with store:
        ctx = a_kit(store, clock, flags, lease=chosen.lease, takes_s=chosen.takes, alone=embedded)
        engine = Engine(ctx)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(engine.run()), group.create_task(tell(engine, ctx))]
            if not embedded:
                tasks.append(group.create_task(ChangePoller(ctx).run()))
            stopping = asyncio.Event()
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
            await stopping.wait()
            for task in tasks:
                task.cancel()


class Pauses:
    """How long the interpreter stood still to look for garbage: the longest, and all together."""

    def __init__(self) -> None:
        self.longest_s = self.all_s = self._began_s = 0.0
        gc.callbacks.append(self._called)

    def _called(self, phase: str, _: object) -> None:
        if phase == "start":
            self._began_s = time.perf_counter()
            return
        took_s = time.perf_counter() - self._began_s
        self.longest_s = max(self.longest_s, took_s)
        self.all_s += took_s


async def tell(engine: Engine, ctx: EngineContext) -> None:
    """Say every second how far it is."""
    pauses = Pauses()
    detector = ctx.drivers.detectors["NODE_STATUS_POLLING"]
    while True:
        blind = sum(
            sample.value
            for metric in ctx.metrics.blind.collect()
            for sample in metric.samples
            if sample.name.endswith("_total")
        )
        watches = engine.watches.values()
        said = {
            "checks": detector.answers, "watches": len(watches), "blind": blind,
            "nodes": sum(len(w.memories) for w in watches),
            "seen": sum(len(w.seen) for w in watches),
            "gc_longest_s": pauses.longest_s, "gc_s": pauses.all_s,
        }  # fmt: skip
        print(json.dumps(said), flush=True)
        await asyncio.sleep(1)


def main() -> None:
    """Run one engine."""
    options = argparse.ArgumentParser()
    options.add_argument("url")
    options.add_argument("flags")
    options.add_argument("--core", type=int)
    options.add_argument("--lease", type=float, default=10.0)
    options.add_argument("--takes", type=float, default=0.05)
    options.add_argument("--profile")
    chosen = options.parse_args()
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    if chosen.core is not None:
        os.sched_setaffinity(0, {chosen.core})
    profiler = cProfile.Profile() if chosen.profile else None
    gc_tuning.calm()
    if profiler is not None:
        profiler.enable()
    asyncio.run(live(chosen))
    if profiler is not None:
        profiler.disable()
        with Path(chosen.profile).open("w") as out:
            pstats.Stats(profiler, stream=out).sort_stats("tottime").print_stats(40)


if __name__ == "__main__":
    main()
