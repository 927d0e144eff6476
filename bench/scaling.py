"""What a node costs, from ten to a hundred thousand: CPU, memory, transactions, database.

    python bench/scaling.py [--sizes 10,100,1000,10000,100000] [--interval 5] [--seconds 15]
                            [--url URL] [--each 1000] [--profile]

One engine process, all nodes well, then one in a thousand fails each second: the real engine on the
real store with a detector that answers at once. A row of the table is one size; what should grow
with the nodes is printed per node, so that a column that stays level is linear and one that falls
is a fixed cost being shared. Without --url the database is SQLite.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench._engine import EngineProcess, wait
from bench._fleet import Flags, document, fill
from bench._measure import cpu_s, rss_bytes
from bench._python import described, system_python
from sqlalchemy import func, select

from yaffle.engine.runtime.clock import SystemClock
from yaffle.store import commit_sequence
from yaffle.store.database import open_store
from yaffle.store.tables import events

FALL = 2
FAILING_SHARE = 0.001


@dataclass(frozen=True)
class Row:
    """What one size cost."""

    nodes: int
    start_s: float
    cpu_us: float
    """Per check, all nodes well."""
    cpu_share: float
    memory: int
    """Resident bytes of the engine."""
    writes: float
    """Write transactions a second, all nodes well."""
    disk: float
    """Bytes of the database per node."""
    failure_ms: float
    """CPU of one failure: from the first failed check to the stored decision."""
    detect_s: float
    """99th percentile."""
    blind: float


def measured(folder: Path, count: int, chosen: argparse.Namespace) -> Row:
    """One size."""
    parsed = document(interval=chosen.interval, fall=FALL)
    url = chosen.url or f"sqlite:///{folder}/s.db"
    asyncio.run(filled(url, count, parsed, chosen.each))
    flags = Flags(folder / "flags", count)
    profile = [f"--profile={folder}/profile"] if chosen.profile else []
    engine = EngineProcess(url, folder / "flags", "--core=0", *profile)
    try:
        wait(lambda: engine.state, 60, "the engine started")
        start_s = wait(lambda: engine.state["seen"] == count, 300, "every node was seen")
        time.sleep(chosen.interval)
        memory = rss_bytes(engine.pid)
        before = sample(engine, url)
        time.sleep(chosen.seconds)
        quiet = minus(sample(engine, url), before)
        before = sample(engine, url)
        killed = kill_some(flags, count, chosen.seconds)
        time.sleep((FALL + 2) * chosen.interval)
        failing = minus(sample(engine, url), before)
        took = asyncio.run(latencies(url, killed))
    finally:
        engine.stop()
    if chosen.profile:
        print((folder / "profile").read_text())
    spent = failing["cpu"] - quiet["cpu"] / quiet["checks"] * failing["checks"]
    return Row(
        nodes=count, start_s=start_s, cpu_us=quiet["cpu"] / quiet["checks"] * 1e6,
        cpu_share=quiet["cpu"] / quiet["at"], memory=memory,
        writes=quiet["turns"] / quiet["at"], disk=size_of(url, folder) / count,
        failure_ms=max(spent, 0) / len(killed) * 1e3,
        detect_s=took[int(len(took) * 0.99)] if took else float("nan"),
        blind=engine.state.get("blind", 0),
    )  # fmt: skip


async def filled(url: str, count: int, parsed, each: int) -> None:
    """Make the rows."""
    store = await asyncio.to_thread(open_store, url, clock=SystemClock())
    async with store:
        await store.write(lambda c: fill(c, count, parsed, each=each), timeout_s=300)


def sample(engine: EngineProcess, url: str) -> dict[str, float]:
    """What has been spent so far."""
    turns = asyncio.run(turn(url))
    return {
        "at": time.monotonic(), "cpu": cpu_s(engine.pid), "checks": engine.state["checks"],
        "turns": turns,
    }  # fmt: skip


def minus(now: dict[str, float], before: dict[str, float]) -> dict[str, float]:
    """What was spent between."""
    return {name: now[name] - before[name] for name in now}


async def turn(url: str) -> int:
    """The number of the last write transaction."""
    return await asked(url, commit_sequence.turn)


async def asked(url: str, work):
    """Ask the database as another process would."""
    store = await asyncio.to_thread(open_store, url, clock=SystemClock(), with_engine_lock=False)
    async with store:
        return await store.read(work)


def kill_some(flags: Flags, count: int, seconds: float) -> dict[str, float]:
    """Let one in a thousand fail each second, one at least; return when each did."""
    each_second = max(1.0, count * FAILING_SHARE)
    wanted = min(int(each_second * seconds), count // 2)
    killed = {}
    for number in range(wanted):
        place = number * (count // wanted)
        flags.set(place, down=True)
        killed[f"n{place}"] = time.time()
        time.sleep(seconds / wanted)
    return killed


async def latencies(url: str, killed: dict[str, float]) -> list[float]:
    """Seconds from failure to the stored verdict, sorted; those not detected are said."""

    def work(conn):
        return conn.execute(
            select(events.c.oname, func.min(events.c.at_us))
            .where(events.c.action == "HEALTH", events.c.status == "unhealthy")
            .group_by(events.c.oname)
        ).all()

    at = dict(await asked(url, work))
    missed = [name for name in killed if name not in at]
    if missed:
        print(f"    note: {len(missed)} of {len(killed)} failures were not detected in time")
    return sorted(at[name] / 1e6 - s for name, s in killed.items() if name in at)


def size_of(url: str, folder: Path) -> float:
    """Bytes of the database."""
    if url.startswith("sqlite"):
        return sum(p.stat().st_size for p in folder.glob("s.db*"))
    return float("nan")


def main() -> None:
    """Measure and print."""
    system_python()
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--sizes", default="10,100,1000,10000,100000")
    options.add_argument("--interval", type=float, default=5.0)
    options.add_argument("--seconds", type=float, default=15.0)
    options.add_argument("--each", type=int, default=1000, help="members of a cluster")
    options.add_argument("--url", help="an empty database on a server")
    options.add_argument("--profile", action="store_true")
    chosen = options.parse_args()
    print(described())
    bound_s = document(interval=chosen.interval, fall=FALL).arithmetic.detect_s
    print(
        f"every {chosen.interval:g} s, clusters of {chosen.each}, one engine on one core;"
        f" printed bound of detection {bound_s:g} s"
    )
    print("   nodes  start s   CPU us/check  % core  KB/node  writes/s  db KB/node"
          "  ms/failure  detect p99 s  blind")  # fmt: skip
    late, empty = False, 0
    for count in map(int, chosen.sizes.split(",")):
        with tempfile.TemporaryDirectory() as place:
            row = measured(Path(place), count, chosen)
        late |= not row.detect_s <= bound_s
        # The smallest size stands for an engine without nodes.
        empty = empty or row.memory
        each = (row.memory - empty) / count / 1024 if row.memory > empty else float("nan")
        print(
            f"{row.nodes:8d} {row.start_s:8.1f} {row.cpu_us:14.1f} {row.cpu_share * 100:7.2f}"
            f" {each:8.2f} {row.writes:9.2f} {row.disk / 1024:11.2f}"
            f" {row.failure_ms:11.1f} {row.detect_s:13.2f} {row.blind:6.0f}",
            flush=True,
        )
    print(f"an engine without nodes: {empty / 1e6:.0f} MB")
    sys.exit(1 if late else 0)


if __name__ == "__main__":
    main()
