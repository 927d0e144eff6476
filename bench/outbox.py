"""Alert enqueue: durable events with their message, against this disk's raw append + fdatasync.

    python bench/outbox.py [--seconds 4] [--dir PLACE]

Both sides write the same bytes to the same file system, one after the other, in the same run. Raw is
one thread that appends one message and calls fdatasync, again and again; ours is N producers that
each wait until their event and its outbox row are on disk (one transaction each, commits in groups).
CPU per event counts everything, producers included: it holds on a busy machine, where rates do not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import structlog
from _python import described, system_python

from yaffle.engine.runtime.clock import SystemClock
from yaffle.store import events
from yaffle.store.database import open_store

TARGET = 0.3
BODY = {
    "incident": "0" * 36, "state": "recovering", "node": "1" * 36, "node_name": "web-1",
    "cluster": "2" * 36, "cluster_name": "web", "cause": "gone", "reason": "r" * 400,
    "opened_us": 1, "at_us": 2,
}  # fmt: skip
PRODUCERS = (1, 4, 16, 64, 256)


def raw(folder: Path, seconds: float) -> float:
    """Appends with fdatasync a second."""
    data = json.dumps(BODY).encode()
    fd = os.open(folder / "raw", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    count, began = 0, time.monotonic()
    while time.monotonic() - began < seconds:
        os.write(fd, data)
        os.fdatasync(fd)
        count += 1
    took = time.monotonic() - began
    os.close(fd)
    return count / took


def cpu_s() -> float:
    """Of this whole process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


async def ours(folder: Path, producers: int, seconds: float) -> tuple[float, float]:
    """Events with one message each, durable when counted, a second; and CPU µs of each."""
    clock = SystemClock()
    url = f"sqlite:///{folder}/outbox-{producers}.db"
    store = await asyncio.to_thread(open_store, url, clock=clock)
    subject = events.Subject(otype="NODE", oid="1" * 36, oname="web-1", node_id="1" * 36)
    count = 0

    def work(conn) -> None:
        events.append(
            conn, subject, at_us=clock.now_us(), action="INCIDENT", status="recovering",
            reason=BODY["reason"], data=BODY, notify=[("hook", "incident.recovering", BODY)],
        )  # fmt: skip

    async def produce(until: float) -> None:
        nonlocal count
        while time.monotonic() < until:
            await store.write(work)
            count += 1

    async with store:
        await store.write(work)
        count, began, cpu = 0, time.monotonic(), cpu_s()
        async with asyncio.TaskGroup() as group:
            for _ in range(producers):
                group.create_task(produce(began + seconds))
        return count / (time.monotonic() - began), (cpu_s() - cpu) / count * 1e6


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seconds", type=float, default=4.0)
    options.add_argument("--dir", type=Path, default=None, help="where to write; default: here")
    chosen = options.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    system_python()
    print(described())
    with tempfile.TemporaryDirectory(prefix="tmp-outbox-", dir=chosen.dir or Path.cwd()) as place:
        folder = Path(place)
        before = raw(folder, chosen.seconds)
        found = {n: asyncio.run(ours(folder, n, chosen.seconds)) for n in PRODUCERS}
        after = raw(folder, chosen.seconds)
    # The faster of the two, so that a disk that was busy for a moment does not flatter us.
    disk = max(before, after)
    print(f"raw append + fdatasync       {disk:8.0f} /s  (before {before:.0f}, after {after:.0f})")
    for producers, (rate, cpu_us) in found.items():
        print(
            f"events + outbox, {producers:4d} waiting {rate:8.0f} /s  ratio {rate / disk:.2f}"
            f"  {cpu_us:5.0f} µs CPU an event"
        )
    best = max(rate for rate, _ in found.values())
    verdict = "met" if best / disk >= TARGET else "MISSED"
    print(f"best ratio {best / disk:.2f}, target >= {TARGET}: {verdict}")
    sys.exit(0 if best / disk >= TARGET else 1)


if __name__ == "__main__":
    main()
