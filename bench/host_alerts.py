"""Alerts of failed hosts: recorded beside this disk's raw append + fdatasync, and delivered.

    python bench/host_alerts.py [--seconds 4] [--count 1000] [--dir PLACE]

Recorded is the failure of another host in each transaction, with its alert and its event, durable when it
is counted. Delivered are so many alerts of as many hosts, which waited when a real server started, to a
controller that accepts them at once; beside that, how fast one thread posts the same without any of it.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from _python import ROOT, described, system_python
from outbox import cpu_s, raw

from yaffle.engine.incidents.host_failure import record
from yaffle.engine.runtime.clock import SystemClock
from yaffle.engine.runtime.context import HostTerms
from yaffle.store.database import open_store

sys.path.insert(0, str(ROOT))
from tests.functional.cli.support import Server
from tests.waiting import wait_for

TARGET: Final = 100.0
"""A second: 3,000 hosts that fail together are all told within half a minute."""
PRODUCERS: Final = 64
CLOCK: Final = SystemClock()
SETTINGS: Final = """
[hosts]
on_shared_storage = true

[alerts.recovery]
type = "http_json"
url = "http://127.0.0.1:{port}/"
"""


class Controller(BaseHTTPRequestHandler):
    """Accepts whatever it is told, and notes when."""

    protocol_version = "HTTP/1.1"
    told: list[float]

    def do_POST(self) -> None:
        """Note it."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.told.append(time.monotonic())
        self.send_response(202)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is called there
        """Say nothing."""


async def recorded(folder: Path, *, seconds: float = 0.0, count: int = 0) -> tuple[float, float]:
    """Record failures for so long, or so many; return how many a second, and CPU µs of each."""
    folder.mkdir(exist_ok=True)
    store = await asyncio.to_thread(open_store, f"sqlite:///{folder}/yaffle.db", clock=CLOCK)
    ctx: Any = SimpleNamespace(
        hosts=HostTerms(), drivers=SimpleNamespace(alerts={"recovery": None})
    )
    done = 0

    def work(conn: Any) -> None:
        nonlocal done
        done += 1
        now_us, host = CLOCK.now_us(), f"compute{done}.example.org"
        proof = "read back: off"
        record(ctx, conn, host, failure_us=now_us, proof=proof, source="bench", now_us=now_us)

    async def produce(until_s: float) -> None:
        while done < count or time.monotonic() < until_s:
            await store.write(work)

    async with store:
        began_s, cpu = time.monotonic(), cpu_s()
        async with asyncio.TaskGroup() as group:
            for _ in range(PRODUCERS):
                group.create_task(produce(began_s + seconds))
        return done / (time.monotonic() - began_s), (cpu_s() - cpu) / done * 1e6


def delivered(folder: Path, count: int, port: int) -> float:
    """Return how many alerts a second a server delivers that finds them waiting."""
    config = folder / "yaffle.toml"
    config.write_text(SETTINGS.format(port=port))
    state = folder / "state"
    asyncio.run(recorded(state, count=count))
    Controller.told = []
    server = Server(state, flags=("--config", str(config)))
    server.start()
    try:
        wait_for(lambda: len(Controller.told) >= count, within_s=300)
    finally:
        server.stop()
    return len(Controller.told) / (Controller.told[-1] - Controller.told[0])


def posted(count: int, port: int) -> float:
    """Return how many requests a second one thread has answered, one after the other."""
    payload = {"hostname": "compute1.example.org", "on_shared_storage": True, "failure_time": 1}
    body = json.dumps({"id": "0" * 36, "event_type": "host failure", "payload": payload})
    connection = http.client.HTTPConnection("127.0.0.1", port)
    began_s = time.monotonic()
    for _ in range(count):
        connection.request("POST", "/", body)
        connection.getresponse().read()
    return count / (time.monotonic() - began_s)


def main() -> int:
    """Print both sides; 1 where the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--dir", type=Path, default=None, help="where to write; default: here")
    options = parser.parse_args()
    print(described())
    web = ThreadingHTTPServer(("127.0.0.1", 0), Controller)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    Controller.told = []
    port = web.server_address[1]
    with tempfile.TemporaryDirectory(prefix="tmp-alerts-", dir=options.dir or Path.cwd()) as name:
        folder = Path(name)
        before = raw(folder, options.seconds)
        rate, cpu_us = asyncio.run(recorded(folder / "rate", seconds=options.seconds))
        disk = max(before, raw(folder, options.seconds))
        told, plain = delivered(folder, options.count, port), posted(options.count, port)
    web.shutdown()
    ratio = rate / disk
    print(f"raw append + fdatasync {disk:.0f} /s")
    print(f"recorded {rate:.0f} /s, {ratio:.2f} x, {cpu_us:.0f} µs CPU each")
    print(f"delivered {told:.0f} /s; posted by one thread {plain:.0f} /s: {told / plain:.2f} x")
    met = min(rate, told) >= TARGET
    print(f"target: both at least {TARGET:g} /s: {'met' if met else 'missed'}")
    return int(not met)


if __name__ == "__main__":
    system_python()
    sys.exit(main())
