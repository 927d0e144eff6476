"""CPU of one look at hosts: read, judged and saved, beside parsing what was said of them alone.

Prints µs a host for 300 and 3,000 hosts, in the shapes of `crm_mon` and `cibadmin` (the cluster itself is
not asked), and by what two vantage points heard of them. The database is a file, and nothing has changed
since the look before, as nearly always.
"""

from __future__ import annotations

import asyncio
import itertools
import resource
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from xml.etree import ElementTree as ET

import msgspec
from _python import ROOT, described, system_python

from yaffle.core.health.host_heartbeat import HeartbeatPatience, judge_heartbeats
from yaffle.drivers.host_monitors.heartbeat import Hearing
from yaffle.drivers.host_monitors.pacemaker import read
from yaffle.engine.detection.host_watcher import HostWatcher
from yaffle.engine.runtime.clock import SystemClock
from yaffle.engine.runtime.context import HostTerms
from yaffle.engine.runtime.vantage_points import StoredVantagePoints
from yaffle.model.host_heartbeat import Heartbeat, VantagePoint
from yaffle.model.host_state import HostReport
from yaffle.store.database import Store, open_store

# The shapes are those that the tests go by.
sys.path.insert(0, str(ROOT))
from tests.contract.host_monitors.answers import (
    connection,
    fenced,
    membership,
    remote,
    status,
)

CLOCK: Final = SystemClock()
ROUNDS: Final = 20
TARGET: Final = 8.0
"""Times what parsing alone costs."""
SHARE_MAX: Final = 0.01
"""Of a core, for 300 hosts every five seconds."""


def answers(count: int) -> tuple[str, str]:
    """Return what `crm_mon` and `cibadmin` print of a cluster with so many remote hosts, all well."""
    names = [f"h{number:04}" for number in range(count)]
    parts = [part for name in names for part in (remote(name), connection(name))]
    fencings = [fenced(name) for name in names[:: max(count // 100, 1)]]
    return status(*parts, *fencings), membership(**dict.fromkeys(names, "true"))


def cpu_us(work: Any, count: int) -> float:
    """Return the best round's CPU (µs a host)."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time_ns()
        work()
        best = min(best, time.process_time_ns() - began)
    return best / 1000 / count


def hearing(count: int) -> Hearing:
    """Return a vantage point that has just heard so many hosts."""
    heard = Hearing(CLOCK, 15.0)
    for number in range(count):
        said = Heartbeat(
            host=f"h{number:04}", boot="b" * 36, uptime_s=1e6, at_s=CLOCK.now_us() / 1e6
        )
        heard.take(said, CLOCK.now_us() / 1e6 + 1e8)
    return heard


def heartbeats(count: int, folder: Path) -> tuple[float, float, float]:
    """Return µs a host of parsing, of sharing with judging, and of that with saving."""
    store, watcher = watched(folder / f"heartbeats{count}.db")
    points, heard = StoredVantagePoints(store), hearing(count)
    asyncio.run(points.share("bench", heard.point("other", every_s=5)))
    text = msgspec.json.encode(heard.point("other", every_s=5))

    async def judged() -> HostReport:
        shared = await points.share("bench", heard.point("mine", every_s=5))
        report = judge_heartbeats(shared, CLOCK.now_us(), HeartbeatPatience())
        assert isinstance(report, HostReport)
        assert len(report.sightings) == count
        return report

    async def look() -> None:
        report = await judged()
        await store.write(lambda conn: watcher.save(conn, report, CLOCK.now_us()))

    asyncio.run(look())
    parse_us = cpu_us(lambda: [msgspec.json.decode(text, type=VantagePoint) for _ in "ab"], count)
    judged_us = cpu_us(lambda: asyncio.run(judged()), count)
    whole_us = cpu_us(lambda: asyncio.run(look()), count)
    asyncio.run(store.close())
    return parse_us, judged_us, whole_us


def watched(path: Path) -> tuple[Store, HostWatcher]:
    """Return a database, and who saves looks in it."""
    store = open_store(f"sqlite:///{path}", clock=CLOCK, runner="inline")
    ctx: Any = SimpleNamespace(
        clock=CLOCK, hosts=HostTerms(), drivers=SimpleNamespace(alerts={}), store=store
    )
    return store, HostWatcher(ctx, ctx, "bench", ctx)


def cluster(count: int, folder: Path) -> tuple[float, float, float]:
    """Return µs a host of parsing, of reading, and of reading with judging and saving."""
    seen, joined = answers(count)
    clock = CLOCK
    store, watcher = watched(folder / f"{count}.db")

    def look() -> None:
        report = read(seen, joined)
        asyncio.run(store.write(lambda conn: watcher.save(conn, report, clock.now_us())))

    look()
    parse_us = cpu_us(lambda: (ET.fromstring(seen), ET.fromstring(joined)), count)
    read_us = cpu_us(lambda: read(seen, joined), count)
    whole_us = cpu_us(look, count)
    asyncio.run(store.close())
    return parse_us, read_us, whole_us


def main() -> int:
    """Print both sides; 1 where a target was missed."""
    missed = False
    print(described())
    with tempfile.TemporaryDirectory() as folder:
        for measure, count in itertools.product((cluster, heartbeats), (300, 3000)):
            parse_us, read_us, whole_us = measure(count, Path(folder))
            share = whole_us * count / 5e6
            ratio = whole_us / parse_us
            print(
                f"{measure.__name__}, {count} hosts: parsed alone {parse_us:.1f} µs a host,"
                f" read {read_us:.1f}, read, judged and saved {whole_us:.1f}: {ratio:.2f} x;"
                f" every 5 s {share:.2%} of a core"
            )
            missed |= (measure is cluster and ratio > TARGET) or (
                count == 300 and share > SHARE_MAX
            )
    print(
        f"memory at its highest {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB"
    )
    print(
        f"target: at most {TARGET:g} x parsing, 300 hosts at most {SHARE_MAX:.0%} of a core:",
        end=" ",
    )
    print("missed" if missed else "met")
    return int(missed)


if __name__ == "__main__":
    system_python()
    sys.exit(main())
