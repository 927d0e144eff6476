"""A hundred thousand nodes on two engines and one PostgreSQL; then one of the engines is killed.

    python bench/scale_two.py [--nodes 100000] [--interval 5] [--lease 10] [--seconds 20]

Two real engine processes, a private PostgreSQL 15 (tests/servers), detectors that answer at once:
time until every node is watched and seen, CPU and memory of each process, CPU of the server, the
time from failure to verdict of a sample, kill -9 of one engine: until every watch has a new owner
(target: lease + 1 s) and every node of it was seen again, and whether failures of that time are
found. Everything runs on this machine's cores; what is per check or per node holds on a busy one.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench._engine import EngineProcess, wait
from bench._fleet import Flags, document, fill
from bench._measure import cpu_s, rss_bytes
from bench._python import described, system_python
from bench.scaling import asked, latencies
from sqlalchemy import func, select
from tests.servers.postgresql import PostgreSQL

from yaffle.engine.runtime.clock import SystemClock
from yaffle.store import commit_sequence
from yaffle.store.database import open_store, prepare_server
from yaffle.store.tables import watches

SAMPLE = 200
RESTING = 3.0
"""Write transactions/s of two engines that have nothing new to say: heartbeats and leases."""
missed: list[str] = []


def row(what: str, value: float, bound: float, word: str, unit: str = "s") -> None:
    """A figure beside its bound."""
    met = value <= bound
    print(
        f"  {what:46s} {value:9.2f} {unit}   {word} {bound:g} {unit}   {'met' if met else 'MISSED'}"
    )
    if not met:
        missed.append(what)


def server_cpu_s(server: PostgreSQL) -> float:
    """CPU of the server with all its children, those that ended included."""
    main = psutil.Process(server.pid)
    spent = main.cpu_times()
    total = spent.user + spent.system + spent.children_user + spent.children_system
    for child in main.children(recursive=True):
        try:
            total += cpu_s(child.pid)
        except (OSError, psutil.Error):
            continue
    return total


def owners(url: str) -> dict[str, int]:
    """Watches by owner whose lease is good."""

    def work(conn):
        return dict(
            conn.execute(
                select(watches.c.owner, func.count())
                .where(watches.c.lease_us > time.time_ns() // 1000)
                .group_by(watches.c.owner)
            ).all()
        )

    return asyncio.run(asked(url, work))


def last_claim_s(url: str) -> float:
    """When the latest watch was claimed (wall clock)."""
    return (
        asyncio.run(
            asked(url, lambda c: c.execute(select(func.max(watches.c.claimed_us))).scalar_one())
        )
        / 1e6
    )


async def filled(url: str, count: int, each: int, parsed) -> None:
    """Make the tables and the rows."""
    await asyncio.to_thread(prepare_server, url, clock=SystemClock())
    store = await asyncio.to_thread(open_store, url, clock=SystemClock())
    async with store:
        for first in range(0, count, 10_000):
            some = min(10_000, count - first)
            await store.write(
                lambda c, first=first, some=some: fill(c, some, parsed, each=each, first=first),
                timeout_s=300,
            )


def fleet(server: PostgreSQL, folder: Path, chosen: argparse.Namespace) -> None:
    """The whole story."""
    count, interval = chosen.nodes, chosen.interval
    parsed = document(interval=interval, unhealthy="100%")
    bound_s = parsed.arithmetic.detect_s
    url = server.create()
    asyncio.run(filled(url, count, chosen.each, parsed))
    server.sql("VACUUM ANALYZE", database=url.rpartition("/")[2])
    flags = Flags(folder / "flags", count)
    began = time.monotonic()
    two = [
        EngineProcess(
            url,
            folder / "flags",
            f"--lease={chosen.lease}",
            f"--core={core}",
            *([f"--profile={folder / f'profile-{core}'}"] if chosen.profile else []),
        )
        for core in (0, 1)
    ]
    try:
        wait(lambda: all(e.state for e in two), 60, "the engines started")
        empty = [rss_bytes(e.pid) for e in two]
        wait(
            lambda: sum(e.state["watches"] for e in two) >= -(-count // chosen.each), 300, "claimed"
        )
        claimed_s = time.monotonic() - began
        wait(lambda: all_seen(two, count), 600, "every node seen")
        seen_s = time.monotonic() - began
        # The second engine may still be getting its share.
        wait(lambda: even(two, count) and all_seen(two, count), 300, "shared evenly")
        print(
            f"  claimed after {claimed_s:.1f} s, every node seen after {seen_s:.1f} s,"
            f" even after {time.monotonic() - began:.1f} s;"
            f" watches {[int(e.state['watches']) for e in two]}"
        )
        rest(url, began, interval)
        quiet(server, url, two, chosen, empty)
        if chosen.profile:
            return
        sample(url, flags, count, bound_s)
        takeover(url, flags, two, count, chosen, bound_s)
    finally:
        for each in two:
            each.stop()
        for told in sorted(folder.glob("profile-*")):
            print(told.read_text())


def all_seen(engines: list[EngineProcess], count: int) -> bool:
    """Whether every node is watched by one and has been seen."""
    states = [e.state for e in engines]
    return sum(s["nodes"] for s in states) == count == sum(s["seen"] for s in states)


def even(engines: list[EngineProcess], count: int) -> bool:
    """Whether no engine has more than 55 % of the nodes."""
    return max(e.state["nodes"] for e in engines) <= 0.55 * count


def rest(url: str, began: float, interval: float) -> None:
    """Wait until what the first looks have found is written: until then nothing is quiet."""
    rates: list[float] = []

    def resting() -> bool:
        turn, at = asyncio.run(asked(url, commit_sequence.turn)), time.monotonic()
        time.sleep(interval)
        turned = asyncio.run(asked(url, commit_sequence.turn)) - turn
        rates.append(turned / (time.monotonic() - at))
        return rates[-1] < RESTING and len(rates) > 1

    wait(resting, 600, "the engines came to rest")
    told = ", ".join(f"{rate:.1f}" for rate in rates)
    print(
        f"  at rest after {time.monotonic() - began:.0f} s; write transactions/s until then: {told}"
    )


def quiet(server, url, two, chosen, empty) -> None:
    """What it costs while all is well."""
    before = [(cpu_s(e.pid), e.state["checks"]) for e in two]
    base, at, turn = (
        server_cpu_s(server),
        time.monotonic(),
        asyncio.run(asked(url, commit_sequence.turn)),
    )
    time.sleep(chosen.seconds)
    took = time.monotonic() - at
    for name, engine, (cpu, checks), start in zip("ab", two, before, empty, strict=True):
        spent, done = cpu_s(engine.pid) - cpu, engine.state["checks"] - checks
        nodes = engine.state["nodes"]
        print(
            f"  engine {name}: {nodes:.0f} nodes, {done / took:.0f} checks/s,"
            f" {spent / took * 100:.1f} % of a core, {spent / done * 1e6:.1f} us CPU a check,"
            f" {rss_bytes(engine.pid) / 1e6:.0f} MB, blind {engine.state['blind']:.0f} times"
        )
        row(
            f"memory per node, engine {name}",
            (rss_bytes(engine.pid) - start) / max(nodes, 1) / 1024,
            8,
            "target",
            "KB",
        )
    turns = asyncio.run(asked(url, commit_sequence.turn)) - turn
    print(
        f"  PostgreSQL: {(server_cpu_s(server) - base) / took * 100:.1f} % of a core,"
        f" {turns / took:.1f} write transactions/s"
    )


def sample(url: str, flags: Flags, count: int, bound_s: float) -> None:
    """Some nodes fail, one by one."""
    victims = random.Random(3).sample(range(count), SAMPLE)
    killed = {}
    for number in victims:
        flags.set(number, down=True)
        killed[f"n{number}"] = time.time()
        time.sleep(0.05)
    time.sleep(bound_s)
    took = asyncio.run(latencies(url, killed))
    if len(took) < len(killed):
        missed.append("detection")
    if took:
        print(f"  {SAMPLE} failures: p50 {took[len(took) // 2]:.2f} s, worst {took[-1]:.2f} s")
        row("failure to verdict, p99", took[int(len(took) * 0.99)], bound_s, "printed bound")
    for number in victims:
        flags.set(number, down=False)


def takeover(url, flags, two, count, chosen, bound_s) -> None:
    """One engine dies; the other takes all it had, and finds what fails meanwhile."""
    victim, heir = two
    time.sleep(2 * chosen.interval)
    held = int(victim.state["watches"])
    killed_s = time.time()
    victim.kill()
    numbers = random.Random(4).sample(range(count), SAMPLE)
    dead = {}
    for number in numbers:
        flags.set(number, down=True)
        dead[f"n{number}"] = time.time()
    whole = -(-count // chosen.each)
    # One answer: between two of them the dead one's leases may run out.
    wait(lambda: list(owners(url).values()) == [whole], 120, "taken over")
    row(
        f"takeover of {held} watches after kill -9",
        last_claim_s(url) - killed_s,
        chosen.lease + 1,
        "lease + 1 s =",
    )
    wait(lambda: all_seen([heir], count), 600, "every node seen again")
    print(f"  every node seen again {time.time() - killed_s:.1f} s after the kill")
    time.sleep(bound_s)
    took = asyncio.run(latencies(url, dead))
    if len(took) < len(dead):
        missed.append("detection across the takeover")
    if took:
        row(
            "failure at the kill to verdict, worst",
            took[-1],
            chosen.lease + 1 + bound_s + chosen.interval,
            "lease + 1 s + bound + interval =",
        )


def main() -> None:
    """Measure and print."""
    system_python()
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--nodes", type=int, default=100_000)
    options.add_argument("--each", type=int, default=1000, help="members of a cluster")
    options.add_argument("--interval", type=float, default=5.0)
    options.add_argument("--lease", type=float, default=10.0)
    options.add_argument("--seconds", type=float, default=20.0)
    options.add_argument("--profile", action="store_true", help="where the time goes, no failures")
    chosen = options.parse_args()
    print(described())
    print(
        f"{chosen.nodes} nodes every {chosen.interval:g} s, clusters of {chosen.each}, two engines"
    )
    with tempfile.TemporaryDirectory() as place:
        server = PostgreSQL()
        server.start()
        try:
            fleet(server, Path(place), chosen)
        finally:
            server.stop()
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
