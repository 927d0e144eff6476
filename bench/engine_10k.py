"""One core: 10,000 nodes asked every 5 s over HTTP, by `yaffle serve`, with its API under load.

    python bench/engine_10k.py [--nodes 10000] [--interval 5] [--seconds 20] [--requests 50]

The real command and its prober on core 0, and nothing else there; the nodes (one epoll process) and
the users of the API on core 1. First without users, then with: what a check costs, the share of the
core, memory per node, the API's answers, and the time from a node's failure to the stored verdict,
beside the bound that `yaffle policy validate` prints for the policy.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import json
import multiprocessing
import os
import random
import re
import select
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import psutil
from bench._fleet import Flags, document, fill
from bench._measure import cpu_s, rss_bytes
from bench._python import described, system_python

from yaffle.engine.runtime.clock import SystemClock
from yaffle.store.database import open_store

FAILING, USERS = 300, 4
TARGET_CORE, TARGET_BYTES = 100.0, 8192
URL_MODE = (
    "{{type: NODE_STATUS_POLL_URL, options: {{poll_url: 'http://127.0.0.1:{port}/{{nodename}}',"
    " poll_url_timeout: 1, poll_url_retry_limit: 1}}}}"
)
NAME = re.compile(rb"GET /n(\d+)")
missed: list[str] = []


def respond(listener: socket.socket, path: str) -> None:
    """All nodes at once: 200 while well, 503 once down."""
    os.sched_setaffinity(0, {1})
    flags = Flags(Path(path))
    poll = select.epoll()
    poll.register(listener.fileno(), select.EPOLLIN)
    socks: dict[int, socket.socket] = {}
    while True:
        for fd, _ in poll.poll():
            if fd == listener.fileno():
                with contextlib.suppress(BlockingIOError):
                    while True:
                        sock, _ = listener.accept()
                        sock.setblocking(False)
                        socks[sock.fileno()] = sock
                        poll.register(sock.fileno(), select.EPOLLIN)
                continue
            sock = socks.pop(fd)
            with contextlib.suppress(OSError):
                found = NAME.match(sock.recv(4096))
                down = found is not None and flags.down(int(found[1]))
                word = b"503 Down" if down else b"200 OK"
                sock.send(
                    b"HTTP/1.1 " + word + b"\r\nContent-Length: 3\r\nConnection: close\r\n\r\nok\n"
                )
            sock.close()


def use(address: str, rate: float, seconds: float, told) -> None:
    """Ask the API for what people look at, at a steady pace, from some connections."""
    os.sched_setaffinity(0, {1})
    paths = ("/v1/clusters", "/v1/nodes?limit=100", "/yaffle/v1/incidents", "/v1/events?limit=50")
    took: list[float] = []
    faults: list[str] = []

    def user(number: int) -> None:
        rng, until = random.Random(number), time.monotonic() + seconds
        conn = http.client.HTTPConnection(address, timeout=30)
        while time.monotonic() < until:
            began = time.monotonic()
            try:
                conn.request("GET", rng.choice(paths))
                answer = conn.getresponse()
                answer.read()
                if answer.status != 200:
                    faults.append(str(answer.status))
            except (OSError, http.client.HTTPException) as error:
                faults.append(type(error).__name__)
                conn.close()
            took.append(time.monotonic() - began)
            time.sleep(max(0.0, USERS / rate - took[-1]))

    users = [threading.Thread(target=user, args=(n,)) for n in range(USERS)]
    for each in users:
        each.start()
    for each in users:
        each.join()
    told.send((sorted(took), faults))


class Served:
    """`yaffle serve` on core 0."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        command = [sys.executable, "-m", "yaffle.cli", "serve", "--state-dir", str(self.state),
                   "--listen", "127.0.0.1:0"]  # fmt: skip
        self._log = (folder / "serve.log").open("wb")
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "taskset", "-c", "0", *command],
            stdout=self._log, stderr=self._log,
        )  # fmt: skip
        self.pid = self._process.pid

    def address(self) -> str:
        """Where it listens; empty before it does."""
        with contextlib.suppress(OSError, ValueError, KeyError):
            for path in self.state.glob("*.json"):
                return str(json.loads(path.read_text())["url"]).removeprefix("http://")
        return ""

    def processes(self) -> list[int]:
        """Its own and its children's: the prober."""
        return [self.pid, *(c.pid for c in psutil.Process(self.pid).children(recursive=True))]

    def cpu_s(self) -> list[float]:
        """Of each."""
        return [cpu_s(pid) for pid in self.processes()]

    def memory(self) -> int:
        """Of all."""
        return sum(rss_bytes(pid) for pid in self.processes())

    def stop(self) -> None:
        """Stop it cleanly."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)
        self._log.close()


def rows(state: Path, sql: str) -> list[tuple]:
    """Read the database, whatever the server does."""
    with contextlib.closing(sqlite3.connect(state / "yaffle.db", timeout=10)) as conn:
        conn.execute("pragma query_only = on")
        return conn.execute(sql).fetchall()


def wait(what, bound_s: float, why: str) -> None:
    """Poll until it is so."""
    until = time.monotonic() + bound_s
    while not what():
        if time.monotonic() > until:
            raise SystemExit(f"not within {bound_s:g} s: {why}")
        time.sleep(0.2)


async def filled(state: Path, count: int, parsed) -> None:
    """Make the database."""
    state.mkdir(parents=True)
    store = await asyncio.to_thread(open_store, f"sqlite:///{state}/yaffle.db", clock=SystemClock())
    async with store:
        await store.write(lambda c: fill(c, count, parsed), timeout_s=120)


def spent(served: Served, seconds: float, checks: float) -> str:
    """Let it run; return what engine and prober used."""
    before, at = served.cpu_s(), time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - at
    used = [b - a for a, b in zip(before, served.cpu_s(), strict=True)]
    share = sum(used) / took * 100
    if share > TARGET_CORE:
        missed.append("one core")
    parts = " + ".join(f"{u / took * 100:.1f}" for u in used)
    each_us = sum(used) / took / checks * 1e6
    return f"{share:5.1f} % of the core (server + prober: {parts}), {each_us:.0f} us a check"


def measure(folder: Path, chosen: argparse.Namespace) -> None:
    """The whole story."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    listener.setblocking(False)
    mode = URL_MODE.format(port=listener.getsockname()[1])
    parsed = document(interval=chosen.interval, mode=mode)
    bound_s = parsed.arithmetic.detect_s
    flags = Flags(folder / "flags", chosen.nodes)
    nodes = multiprocessing.Process(
        target=respond, args=(listener, str(folder / "flags")), daemon=True
    )
    nodes.start()
    asyncio.run(filled(folder / "few" / "state", 10, parsed))
    few = Served(folder / "few")
    wait(few.address, 60, "the server listens")
    time.sleep(2 * chosen.interval)
    empty = few.memory()
    few.stop()
    asyncio.run(filled(folder / "state", chosen.nodes, parsed))
    served = Served(folder)
    try:
        wait(served.address, 60, "the server listens")
        time.sleep(4 * chosen.interval)
        checks = chosen.nodes / chosen.interval
        print(f"{chosen.nodes} nodes every {chosen.interval:g} s = {checks:.0f} checks/s")
        print(f"  nobody asks        {spent(served, chosen.seconds, checks)}")
        each = (served.memory() - empty) / chosen.nodes
        judged("memory per node", each / 1024, TARGET_BYTES / 1024, "target", "KB")
        ours, theirs = multiprocessing.Pipe()
        users = multiprocessing.Process(
            target=use, args=(served.address(), chosen.requests, chosen.seconds, theirs)
        )
        users.start()
        killer = threading.Thread(target=kill_some, args=(flags, chosen, killed := {}))
        killer.start()
        print(f"  API under load     {spent(served, chosen.seconds, checks)}")
        took, faults = ours.recv()
        killer.join()
        print(
            f"  API: {len(took) / chosen.seconds:.0f} requests/s,"
            f" p50 {took[len(took) // 2] * 1e3:.0f} ms,"
            f" p99 {took[int(len(took) * 0.99)] * 1e3:.0f} ms, {len(faults)} refused or failed"
        )
        time.sleep(bound_s)
        at = dict(
            rows(
                served.state,
                "select oname, min(at_us) from events where action = 'HEALTH'"
                " and status = 'unhealthy' group by oname",
            )
        )
    finally:
        served.stop()
        nodes.kill()
    late = sorted(at[name] / 1e6 - s for name, s in killed.items() if name in at)
    if len(late) < len(killed):
        missed.append("detection")
        print(f"  {len(killed) - len(late)} of {len(killed)} failures were not detected")
    if late:
        print(
            f"  {len(killed)} failures meanwhile:"
            f" p50 {late[len(late) // 2]:.2f} s, worst {late[-1]:.2f} s"
        )
        judged(
            "failure to verdict, p99", late[int(len(late) * 0.99)], bound_s, "printed bound", "s"
        )


def kill_some(flags: Flags, chosen: argparse.Namespace, killed: dict[str, float]) -> None:
    """Let some nodes fail one by one, spread over the time."""
    count = min(FAILING, chosen.nodes // 10)
    for number in random.Random(2).sample(range(chosen.nodes), count):
        flags.set(number, down=True)
        killed[f"n{number}"] = time.time()
        time.sleep(chosen.seconds / count)


def judged(what: str, value: float, bound: float, word: str, unit: str) -> None:
    """A figure beside its bound."""
    met = value <= bound
    print(
        f"  {what:24s} {value:6.2f} {unit}   {word} {bound:g} {unit}"
        f"   ratio {value / bound:.2f}   {'met' if met else 'MISSED'}"
    )
    if not met:
        missed.append(what)


def main() -> None:
    """Measure and print."""
    system_python()
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--nodes", type=int, default=10_000)
    options.add_argument("--interval", type=float, default=5.0)
    options.add_argument("--seconds", type=float, default=20.0)
    options.add_argument("--requests", type=float, default=50.0, help="asked of the API a second")
    chosen = options.parse_args()
    print(described())
    with tempfile.TemporaryDirectory() as place:
        measure(Path(place), chosen)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
