"""One engine, one core: 10,000 nodes every 5 s, its CPU, memory and detection time.

    python bench/engine_10k.py [--nodes 10000] [--interval 5] [--seconds 24]

Both sides run in this process one after the other: a bare loop that makes the same observations at
the same pace and looks at them, and the real engine (store, watches, verdicts, planner in observe
mode) with a detector that answers at once. The ratio is what watching costs beside being told.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import gc
import logging
import os
import platform
import pstats
import random
import resource
import sys
import tempfile
import time
import uuid
from pathlib import Path

import structlog
from sqlalchemy import insert, select

from yaffle.config import EngineSettings
from yaffle.core.budgets import BudgetLimit, Scope
from yaffle.engine.clock import SystemClock
from yaffle.engine.engine import Engine
from yaffle.engine.kit import Drivers, Kit, Signals
from yaffle.engine.metrics import Metrics
from yaffle.model.health import Observation, Outcome
from yaffle.policy import parse
from yaffle.store.database import open_store
from yaffle.store.tables import bindings, clusters, events, nodes, policies, profiles

POLICY = """
type: senlin.policy.health
version: "1.3"
properties:
  detection:
    interval: {interval:g}
    node_update_timeout: 60
    rise: 1
    fall: 2
    detection_modes: [{{type: NODE_STATUS_POLLING}}]
  recovery:
    mode: observe
    actions: [{{name: REBOOT, timeout: 60}}]
    fencing: [COMPUTE]
    limits: {{max_unhealthy: 100%, max_in_flight: 10}}
"""
CLUSTER_SIZE = 1000
FAILING = 300
TARGET_CPU, TARGET_BYTES = 100.0, 8192


class Instant:
    """Answers at once; a node fails from the moment in which it is put into `failed`."""

    type = "NODE_STATUS_POLLING"

    def __init__(self) -> None:
        self.failed: dict[str, int] = {}

    async def check(self, targets, mode, *, deadline_s):
        """Answer for all, in order."""
        return [self._one(t.node_id, mode.key, time.time_ns() // 1000) for t in targets]

    def _one(self, ident, key, now_us):
        down = ident in self.failed
        return Observation(
            node_id=ident,
            mode=key,
            outcome=Outcome.FAIL if down else Outcome.PASS,
            code="ST-GONE" if down else "ST-UP",
            detail="gone" if down else "up",
            at_us=now_us,
            answered=True,
            backend_status="GONE" if down else "ACTIVE",
        )


def rss() -> int:
    """Resident bytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cpu_s() -> float:
    """CPU seconds of this process, all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def fill(conn, count: int, document: dict, version: str) -> None:
    """Store a profile, a policy and clusters of nodes that are healthy already."""
    now_us = time.time_ns() // 1000
    profile, policy = str(uuid.uuid4()), str(uuid.uuid4())
    conn.execute(
        insert(profiles).values(id=profile, name="p", type="bench-1.0", spec={}, created_us=now_us)
    )
    kind = f"senlin.policy.health-{version}"
    conn.execute(
        insert(policies).values(id=policy, name="h", type=kind, spec=document, created_us=now_us)
    )
    for first in range(0, count, CLUSTER_SIZE):
        size = min(CLUSTER_SIZE, count - first)
        cluster = str(uuid.uuid4())
        conn.execute(
            insert(clusters).values(
                id=cluster, name=f"c{first}", profile_id=profile, desired_capacity=size,
                status="ACTIVE", created_us=now_us,
            )
        )  # fmt: skip
        conn.execute(
            insert(bindings).values(
                id=str(uuid.uuid4()), cluster_id=cluster, policy_id=policy, policy_type=kind,
                created_us=now_us,
            )
        )  # fmt: skip
        rows = [
            {
                "id": str(uuid.uuid4()), "name": f"n{first + n}", "cluster_id": cluster,
                "index": n, "profile_id": profile, "physical_id": str(uuid.uuid4()),
                "status": "ACTIVE", "health": "healthy", "backend_status": "ACTIVE",
                "created_us": now_us,
            }
            for n in range(size)
        ]  # fmt: skip
        conn.execute(insert(nodes), rows)


async def bare(detector: Instant, idents: list[str], interval_s: float, seconds: float) -> float:
    """CPU percent of asking and looking, without an engine."""

    class T:
        __slots__ = ("node_id",)

        def __init__(self, ident):
            self.node_id = ident

    class M:
        key = "0:NODE_STATUS_POLLING"

    groups = [
        [T(i) for i in idents[f : f + CLUSTER_SIZE]] for f in range(0, len(idents), CLUSTER_SIZE)
    ]
    bad = 0
    began, used = time.monotonic(), cpu_s()
    while time.monotonic() - began < seconds:
        for group in groups:
            for seen in await detector.check(group, M, deadline_s=1):
                bad += seen.outcome is not Outcome.PASS
            await asyncio.sleep(interval_s / len(groups))
    return (cpu_s() - used) / (time.monotonic() - began) * 100


async def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--nodes", type=int, default=10_000)
    options.add_argument("--interval", type=float, default=5.0)
    options.add_argument("--seconds", type=float, default=24.0)
    options.add_argument("--profile", action="store_true", help="print where the time goes")
    chosen = options.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, pid {os.getpid()}")
    with tempfile.TemporaryDirectory() as folder:
        await measure(Path(folder), chosen)


async def measure(folder: Path, chosen: argparse.Namespace) -> None:
    """One store, one engine, `chosen.nodes` nodes."""
    clock, detector = SystemClock(), Instant()
    parsed = parse(POLICY.format(interval=chosen.interval))
    bound_s = parsed.arithmetic.detect_s
    store = await asyncio.to_thread(open_store, f"sqlite:///{folder}/bench.db", clock=clock)
    async with store:
        await store.write(
            lambda c: fill(c, chosen.nodes, parsed.document, parsed.policy.version), timeout_s=60
        )
        idents = await store.read(lambda c: list(c.execute(select(nodes.c.id)).scalars()))
        raw = await bare(detector, idents, chosen.interval, chosen.interval)
        unlimited = BudgetLimit(max_in_flight=10**6, burst=10**6, per_hour=1e9)
        kit = Kit(
            store=store, clock=clock,
            drivers=Drivers(profiles={}, detectors={"NODE_STATUS_POLLING": detector}),
            settings=EngineSettings(), budgets=dict.fromkeys(Scope, unlimited), signals=Signals(),
            rng=random.Random(1), new_id=lambda: str(uuid.uuid4()), host="bench", pid=os.getpid(),
            metrics=Metrics(),
        )  # fmt: skip
        engine = Engine(kit)
        gc.collect()
        empty = rss()
        async with asyncio.TaskGroup() as group:
            running = group.create_task(engine.run())
            await warm(engine, chosen.nodes)
            gc.collect()
            memory = (rss() - empty) / chosen.nodes
            await asyncio.sleep(2)
            profiler = start_profiler(chosen.profile)
            began, used = time.monotonic(), cpu_s()
            await asyncio.sleep(chosen.seconds / 2)
            quiet = (cpu_s() - used) / (time.monotonic() - began) * 100
            began, used = time.monotonic(), cpu_s()
            await fail(detector, idents, chosen.seconds / 2)
            failing = (cpu_s() - used) / (time.monotonic() - began) * 100
            await asyncio.sleep(bound_s + 1)
            stop_profiler(profiler)
            running.cancel()
        took = await latencies(store, detector)
    report(chosen, raw, quiet, failing, memory, took, bound_s)


async def warm(engine: Engine, count: int) -> None:
    """Wait until every node has been seen."""
    until = time.monotonic() + 60
    while sum(len(w.seen) for w in engine.watches.values()) < count:
        if time.monotonic() > until:
            raise SystemExit("not every node was seen within a minute")
        await asyncio.sleep(0.2)


async def fail(detector: Instant, idents: list[str], seconds: float) -> None:
    """Let some nodes fail one by one, spread over the time."""
    victims = random.Random(2).sample(idents, min(FAILING, len(idents)))
    for ident in victims:
        detector.failed[ident] = time.time_ns() // 1000
        await asyncio.sleep(seconds / len(victims))


async def latencies(store, detector: Instant) -> list[float]:
    """Seconds from failure to the stored verdict, sorted."""
    found = await store.read(
        lambda c: c.execute(
            select(events.c.oid, events.c.at_us).where(
                events.c.action == "HEALTH", events.c.status == "unhealthy"
            )
        ).all()
    )
    at = {row.oid: row.at_us for row in found}
    missed = [i for i in detector.failed if i not in at]
    if missed:
        print(f"    note: {len(missed)} failures were not detected in time")
    return sorted((at[i] - us) / 1e6 for i, us in detector.failed.items() if i in at)


def start_profiler(wanted: bool):
    """Return a running profiler, or None."""
    if not wanted:
        return None
    profiler = cProfile.Profile()
    profiler.enable()
    return profiler


def stop_profiler(profiler) -> None:
    """Print where the time went."""
    if profiler is None:
        return
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(28)


def report(chosen, raw, quiet, failing, memory, took, bound_s) -> None:
    """Print both sides, the ratio and the targets."""
    rate = chosen.nodes / chosen.interval
    print(f"{chosen.nodes} nodes every {chosen.interval:g} s = {rate:.0f} checks/s")
    print(f"  bare loop (asks, looks)    {raw:6.1f} % of a core")
    print(
        f"  engine, all healthy        {quiet:6.1f} % of a core   target <= {TARGET_CPU:g} %"
        f"   {quiet / raw:.1f} x the bare loop, {quiet * 1e4 / rate:.0f} us a check"
    )
    print(
        f"  engine, nodes failing      {failing:6.1f} % of a core   {FAILING} of them, one by one"
    )
    print(
        f"  memory                     {memory / 1024:6.2f} KB a node"
        f"   target <= {TARGET_BYTES / 1024:g} KB"
    )
    if not took:
        raise SystemExit("nothing was detected")
    p50, p99 = took[len(took) // 2], took[int(len(took) * 0.99)]
    print(
        f"  detection p50 {p50:.2f} s, p99 {p99:.2f} s, worst {took[-1]:.2f} s"
        f"   printed bound {bound_s:.2f} s   p99 / bound {p99 / bound_s:.2f}"
    )
    met = quiet <= TARGET_CPU and memory <= TARGET_BYTES and p99 <= bound_s
    print("  targets met" if met else "  TARGETS MISSED")
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    asyncio.run(main())
