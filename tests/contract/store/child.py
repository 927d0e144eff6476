"""A process of its own for the store's tests: it holds locks, writes and dies. Run as a script."""

from __future__ import annotations

import asyncio
import itertools
import resource
import sqlite3
import sys
import time
from pathlib import Path

import structlog

from yaffle.errors import StoreUnavailable
from yaffle.store import events
from yaffle.store.database import Store, open_store
from yaffle.store.lock import lock_of
from yaffle.store.turnstile import Turnstile


class WallClock:
    def now_us(self) -> int:
        return time.time_ns() // 1000

    def monotonic_s(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def say(*words: object) -> None:
    print(*words, flush=True)


def write_event(name: str, reason: str = ""):
    def work(conn):
        subject = events.Subject(otype="node", oid=name)
        return events.append(
            conn, subject, at_us=1, reason=reason, notify=[("log", "a", {}), ("log", "b", {})]
        )

    return work


async def write_for_ever(store: Store) -> None:
    async def one(name: str) -> None:
        for number in itertools.count():
            key = f"{name}-{number}"
            await store.write(write_event(key))
            say("ack", key)

    async with asyncio.TaskGroup() as tasks:
        for name in "abcdefgh":
            tasks.create_task(one(name))


async def fill(store: Store) -> None:
    """Write under a file size limit until refused; lift it; write again."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, hard))
    for number in range(1000):
        try:
            await store.write(write_event(f"n-{number}", "x" * 50_000))
        except StoreUnavailable as error:
            say("refused", error)
            break
        say("ack", f"n-{number}")
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    await store.write(write_event("after"))
    say("ack", "after")
    await store.close()
    say("end")


def main(what: str, target: str) -> None:
    if what == "exclusive":
        raw = sqlite3.connect(target, isolation_level=None)
        raw.execute("BEGIN EXCLUSIVE")
        say("ready")
        sys.stdin.readline()
        raw.execute("ROLLBACK")
        say("released")
        sys.stdin.readline()
        return
    if what == "turn":
        path = Path(target.removeprefix("sqlite:///"))
        turnstile = Turnstile(lock_of(path), wait_s_max=60, now_s=time.monotonic)
        with turnstile.turn():
            say("ready")
            sys.stdin.readline()
        sys.stdin.readline()
        return
    if what == "turns":
        path = Path(target.removeprefix("sqlite:///"))
        turnstile = Turnstile(lock_of(path), wait_s_max=60, now_s=time.monotonic)
        say("ready")
        with (path.parent / "turns").open("ab", buffering=0) as counted:
            while True:
                with turnstile.turn():
                    counted.write(b".")
                    time.sleep(0.005)
    # Standard output is for what the parent reads.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    store = open_store(target, clock=WallClock())
    say("ready")
    match what:
        case "hold":
            sys.stdin.readline()
        case "write":
            asyncio.run(write_for_ever(store))
        case "fill":
            asyncio.run(fill(store))


if __name__ == "__main__":
    main(*sys.argv[1:])
