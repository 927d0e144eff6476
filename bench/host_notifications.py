"""What it costs to take in a notification, here and in a real Masakari.

Both are asked in the same words over one connection, with their hosts registered. Prints CPU time for
each notification, the rate, and the ratio. Masakari stores it and hands it to an engine that is not
there; ours has followed it to its end when the figures are taken.

    python bench/host_notifications.py [--count 300]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import psutil
from _python import ROOT, described, system_python

sys.path.insert(0, str(ROOT))
from tests.functional.cli.support import Server
from tests.servers.masakari import TOKEN, masakari
from tests.waiting import wait_for

MOST_RATIO: Final = 1.0
SEGMENT: Final = {"name": "bench", "recovery_method": "auto", "service_type": "COMPUTE"}


@dataclass(frozen=True, slots=True)
class Cost:
    """What one side took."""

    cpu_ms: float
    """For each notification, of all its processes."""
    per_s: float

    def line(self, name: str) -> str:
        """Return a line of the table."""
        return f"{name:10} {self.cpu_ms:8.2f} ms CPU {self.per_s:8.1f} /s"


def told(host: str) -> Mapping[str, Any]:
    """Return a notification of which nothing follows."""
    return {
        "notification": {
            "type": "PROCESS",
            "hostname": host,
            "generated_time": "2026-11-29T10:00:00",
            "payload": {"event": "STARTED", "process_name": "nova-compute"},
        }
    }


def measured(client: httpx.Client, root: psutil.Process, hosts: list[str]) -> Cost:
    """Tell of each host once; return what that took."""
    for name in hosts[:10]:
        client.post("/notifications", json=told(name)).raise_for_status()
    before, began_s = cpu_s(root), time.monotonic()
    for name in hosts[10:]:
        client.post("/notifications", json=told(name)).raise_for_status()
    took_s, count = time.monotonic() - began_s, len(hosts) - 10
    wait_for(lambda: settled(client), within_s=120)
    return Cost(cpu_ms=(cpu_s(root) - before) * 1000 / count, per_s=count / took_s)


def settled(client: httpx.Client) -> bool:
    """Whether nothing is under way, or nothing ever ends because there is no engine."""
    under_way = client.get("/notifications?status=new&limit=1").json()["notifications"]
    return not under_way or "X-Auth-Token" in client.headers


def cpu_s(root: psutil.Process) -> float:
    """Return the CPU time of a process and of all below it."""
    every = [root, *root.children(recursive=True)]
    return sum(sum(one.cpu_times()[:2]) for one in every)


def theirs(hosts: list[str]) -> Cost:
    """Measure a real Masakari API with one worker."""
    with masakari() as server:
        for name in hosts:
            server.register(name)
        headers = {"X-Auth-Token": TOKEN}
        with httpx.Client(base_url=server.url, headers=headers, timeout=60) as client:
            return measured(client, psutil.Process(server.pid), hosts)


def ours(hosts: list[str]) -> Cost:
    """Measure ours, its engine included."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder) / "state", flags=())
        server.start()
        try:
            assert server.running is not None
            address = server.ok("status", "--json").json["server"]["url"]
            with httpx.Client(base_url=f"{address}/instance-ha/v1", timeout=60) as client:
                made = client.post("/segments", json={"segment": SEGMENT}).json()["segment"]
                place = f"/segments/{made['uuid']}/hosts"
                for name in hosts:
                    host = {"name": name, "type": "COMPUTE", "control_attributes": "SSH"}
                    client.post(place, json={"host": host}).raise_for_status()
                return measured(client, psutil.Process(server.running.process.pid), hosts)
        finally:
            server.stop()


def main() -> int:
    """Print both sides; 1 where ours costs more."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    count = parser.parse_args().count
    hosts = [f"cmp{number:04}" for number in range(count + 10)]
    print(f"{described()}; {count} notifications of as many hosts, over one connection")
    them, us = theirs(hosts), ours(hosts)
    print(them.line("masakari"))
    print(us.line("yaffle"))
    ratio = us.cpu_ms / them.cpu_ms
    print(f"ratio of CPU: {ratio:.2f} (target: at most {MOST_RATIO:g})")
    return 0 if ratio <= MOST_RATIO else 1


if __name__ == "__main__":
    system_python()
    raise SystemExit(main())
