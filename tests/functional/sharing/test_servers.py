"""Three real engines on one real database share, take over and hand over, in real time."""

from __future__ import annotations

import asyncio
import contextlib
import random
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from sqlalchemy import insert, select
from tests.given import Given

from yaffle.config import EngineSettings
from yaffle.engine.engine import Engine
from yaffle.engine.runtime.change_poller import ChangePoller
from yaffle.engine.runtime.clock import SystemClock
from yaffle.engine.runtime.context import Drivers, EngineContext, Signals
from yaffle.engine.runtime.metrics import Metrics
from yaffle.store import coverage, leases, tables
from yaffle.store.database import Store, open_store, prepare_server

LEASE_S = 3.0
CLUSTERS = 12
BOUND_S = 60.0
"""Where nothing is promised."""


class Process:
    """What one engine process has: its own connections, clock, bells and ticker."""

    def __init__(self, url: str, number: int) -> None:
        self.clock = SystemClock()
        self.store: Store = open_store(url, clock=self.clock, with_engine_lock=False)
        self.ctx = EngineContext(
            store=self.store,
            clock=self.clock,
            drivers=Drivers(profiles={}, detectors={}),
            settings=EngineSettings(lease=LEASE_S, poll=0.5),
            budgets={},
            signals=Signals(),
            rng=random.Random(number),
            new_id=lambda: str(uuid.uuid4()),
            host=f"host-{number}",
            pid=number,
            metrics=Metrics(),
            alone=False,
        )
        self.engine = Engine(self.ctx)
        self.task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.engine.run())
            group.create_task(ChangePoller(self.ctx).run())


@contextlib.asynccontextmanager
async def fleet(url: str) -> AsyncIterator[Callable[[], Process]]:
    made: list[Process] = []
    async with asyncio.TaskGroup() as group:

        def start() -> Process:
            process = Process(url, len(made))
            made.append(process)
            process.task = group.create_task(process.run())
            return process

        try:
            yield start
        finally:
            for process in made:
                assert process.task is not None
                process.task.cancel()
            await asyncio.wait([p.task for p in made if p.task is not None], timeout=30)
            for process in made:
                await process.store.close()


def furnish(conn: Any) -> None:
    row = {"id": "p", "name": "p", "type": "t", "spec": {}, "created_us": 1}
    conn.execute(insert(tables.profiles).values(**row))
    for n in range(CLUSTERS):
        row = {"id": f"c{n}", "name": f"c{n}", "profile_id": "p", "status": "ACTIVE"}
        conn.execute(insert(tables.clusters).values(**row, created_us=leases.now(conn)))


def held(conn: Any) -> list[int]:
    now_us = leases.now(conn)
    rows = conn.execute(select(tables.watches).where(tables.watches.c.lease_us > now_us)).all()
    return sorted(Counter(r.owner for r in rows if r.owner).values())


async def until(condition: Callable[[], Awaitable[bool]], within_s: float, what: str) -> None:
    """Wait; what counts is the time that we were given, as all engines are in this process."""
    with Given() as given:
        while not await condition():
            assert given.s < within_s, f"not within {within_s:g} s: {what}"
            await asyncio.sleep(0.02)


def test_three_engines_share_one_dies_one_joins(server_url: str) -> None:
    prepare_server(server_url, clock=SystemClock())

    async def main() -> None:
        async with fleet(server_url) as start:
            first, second = start(), start()
            await first.store.write(furnish)

            def share(*counts: int) -> Callable[[], Awaitable[bool]]:
                async def so() -> bool:
                    return await second.store.read(held) == list(counts)

                return so

            await until(share(6, 6), BOUND_S, "two share")
            third = start()
            await until(share(4, 4, 4), BOUND_S, "three share")
            # As SIGKILL: nothing is given back, and no lease is renewed.
            await third.store.close()
            seen: list[coverage.Coverage] = []

            async def taken() -> bool:
                # Both in one reading: a lease may run out between two.
                counts, found = await second.store.read(
                    lambda conn: (held(conn), coverage.measure(conn))
                )
                seen[:] = [found]
                return counts == [6, 6]

            await until(taken, LEASE_S + 1.5, "taken over within a lease and a second")
            assert (seen[0].ratio, seen[0].longest_s) == (1.0, 0.0)
            # One that ends says so, and nothing waits for its lease.
            assert first.task is not None
            first.task.cancel()
            await until(share(12), 2.5, "given back and taken at once")

    asyncio.run(main())
