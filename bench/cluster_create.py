"""A cluster of 200 nodes created, half of it scaled in, and deleted: what a node costs the engine.

    python bench/cluster_create.py [--nodes 200] [--profile]

The real store on disk, the real executor, a health policy's watch, and a backend that answers at
once: what is measured is ours. Senlin takes 63.6 s for 200 nodes of a backend that answers at once.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import logging
import os
import platform
import pstats
import random
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import ClassVar

import structlog

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench._fleet import Instant
from bench._measure import cpu_s

from yaffle.config import EngineSettings
from yaffle.core.planning.budgets import BudgetLimit, Scope
from yaffle.engine.commands import Commands
from yaffle.engine.engine import Engine
from yaffle.engine.runtime.clock import SystemClock
from yaffle.engine.runtime.context import Drivers, EngineContext, Signals
from yaffle.engine.runtime.metrics import Metrics
from yaffle.model.authz import LOCAL
from yaffle.model.operations import OperationSpec, Progress, ProgressState, Promise, Reading
from yaffle.store import actions
from yaffle.store.database import open_store

BOUND_S = 5.0
SENLIN_S = 63.6


class AtOnce:
    """A backend that has done it already."""

    type = "bench-1.0"
    promises = frozenset({Promise.DEDUPLICATES, Promise.CONFIRMS_DELETE})
    schema: ClassVar = {}
    operations: ClassVar = {
        "CREATE": OperationSpec(description="", in_place=False),
        "DELETE": OperationSpec(description="", in_place=True),
    }

    def validate(self, spec):
        """Take anything."""
        return spec

    async def read(self, targets, *, deadline_s):
        """All are well."""
        return [
            Reading(
                exists=True, up=True, backend_status="ACTIVE", detail="",
                physical_id=t.physical_id,
            )
            for t in targets
        ]  # fmt: skip

    async def submit(self, op, *, operation_id, deadline_s):
        """Done."""
        made = f"p-{op.target.node_id}" if op.kind == "CREATE" else None
        return Progress(state=ProgressState.DONE, detail="done", physical_id=made)

    poll = submit


def a_kit(store, clock) -> EngineContext:
    """Everything real but the backend."""
    unlimited = BudgetLimit(max_in_flight=10**6, burst=10**6, per_hour=1e9)
    return EngineContext(
        store=store, clock=clock,
        drivers=Drivers(
            profiles={"bench-1.0": AtOnce()},  # type: ignore[dict-item]
            detectors={"NODE_STATUS_POLLING": Instant()},
        ),
        settings=EngineSettings(), budgets=dict.fromkeys(Scope, unlimited), signals=Signals(),
        rng=random.Random(1), new_id=lambda: str(uuid.uuid4()), host="bench", pid=os.getpid(),
        metrics=Metrics(),
    )  # fmt: skip


async def timed(ctx: EngineContext, what: str, count: int, ask) -> float:
    """Ask, wait for the end, print what it cost; return the seconds."""
    began, used = time.monotonic(), cpu_s(os.getpid())
    ident = await ask
    ident = ident[1] if isinstance(ident, tuple) else ident
    while True:
        row = await ctx.store.read(lambda c: actions.get(c, ident))
        if row is not None and row.status in actions.ENDED:
            break
        await asyncio.sleep(0.02)
    took, cpu = time.monotonic() - began, cpu_s(os.getpid()) - used
    print(
        f"  {what:18s} {took:6.2f} s   {cpu:6.2f} s CPU   {cpu / count * 1e3:6.2f} ms CPU per node"
        f"   {row.status}"
    )
    return took


async def measure(folder: Path, nodes: int, *, inline: bool) -> float:
    """Create, scale in, delete; return the seconds of the creation.

    `inline`: all in one thread, so that a profiler sees the database's work too.
    """
    clock = SystemClock()
    store = open_store(
        f"sqlite:///{folder}/bench.db", clock=clock, runner="inline" if inline else "thread"
    )
    async with store:
        ctx = a_kit(store, clock)
        commands = Commands(ctx)
        await commands.create_profile("p", "bench-1.0", {}, by="bench")
        async with asyncio.TaskGroup() as group:
            engine = group.create_task(Engine(ctx).run())
            await asyncio.sleep(0.5)
            took = await timed(
                ctx, f"create {nodes}", nodes,
                commands.cluster_create(LOCAL, name="c", profile="p", desired_capacity=nodes),
            )  # fmt: skip
            half = nodes // 2
            await timed(
                ctx, f"scale in {half}", half,
                commands.cluster_act(LOCAL, "c", "scale_in", {"count": half}),
            )  # fmt: skip
            await timed(
                ctx, f"delete {nodes - half}", nodes - half, commands.cluster_delete(LOCAL, "c")
            )
            engine.cancel()
    return took


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--nodes", type=int, default=200)
    options.add_argument("--profile", action="store_true", help="print where the time goes")
    chosen = options.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores")
    profiler = cProfile.Profile() if chosen.profile else None
    if profiler is not None:
        profiler.enable()
    with tempfile.TemporaryDirectory() as place:
        took = asyncio.run(measure(Path(place), chosen.nodes, inline=chosen.profile))
    if profiler is not None:
        profiler.disable()
        pstats.Stats(profiler).sort_stats("cumtime").print_stats(40)
    bound_s = BOUND_S * max(1.0, chosen.nodes / 200)
    met = took <= bound_s
    print(f"  target {bound_s:g} s: {'met' if met else 'MISSED'}; Senlin {SENLIN_S} s")
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
