"""A small cluster of local processes, one of which dies and is healed: proof that a set-up works."""

from __future__ import annotations

import json
import os
import signal
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.packaging.places import ROOT
from tests.packaging.serving import Serving, until

PAGE = ROOT / "tests/plain_page.py"
POLICY = """\
type: senlin.policy.health
version: "1.3"
properties:
  detection:
    interval: 1
    node_update_timeout: 5
    rise: 1
    fall: 2
    detection_modes:
      - type: NODE_STATUS_POLLING
  recovery:
    fencing: [COMPUTE]
    actions:
      - {name: RECREATE, timeout: 20}
    limits: {max_unhealthy: 2, max_in_flight: 2}
"""


def profile(mark: str) -> str:
    """Return a profile of small web servers that carry `mark`."""
    properties = {
        "command": [sys.executable, "-I", "-S", str(PAGE), "{nodename}", "{port}"],
        "env": {"TEST_MARK": mark},
        "stop_timeout": 3,
    }
    return json.dumps({"type": "yaffle.local.process", "version": "1.0", "properties": properties})


def living(mark: str) -> set[int]:
    """Return the living processes that carry `mark`."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                environ = (entry / "environ").read_bytes()
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if mark.encode() in environ and state not in "ZX":
                found.add(int(entry.name))
    return found


def healths(server: Serving) -> dict[str, str]:
    """Return each node's health by its name."""
    nodes = json.loads(server.ok("node", "list", "--json"))["nodes"]
    return {n["name"]: n["health"] for n in nodes}


def all_well(server: Serving, count: int = 2) -> bool:
    """Whether there are so many nodes, all healthy."""
    return list(healths(server).values()) == ["healthy"] * count


def end_all(mark: str) -> bool:
    """Kill every process that carries `mark`; return whether none was left."""
    found = living(mark)
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return not found


@contextmanager
def cluster_of_two(server: Serving) -> Iterator[str]:
    """Make the cluster `web`, and have one of its nodes die and come back; kill what is left after."""
    mark = f"packaging-{uuid.uuid4().hex}"
    try:
        server.ok("profile", "create", "page", "-", given=profile(mark))
        server.ok("policy", "create", "care", "-", given=POLICY)
        server.ok(
            "cluster", "create", "web", "--profile", "page", "--size", "2", "--policy", "care"
        )
        until(lambda: all_well(server))
        victim = min(living(mark))
        os.kill(victim, signal.SIGKILL)
        until(lambda: len(living(mark)) == 2 and victim not in living(mark))
        until(lambda: all_well(server))
        yield mark
    finally:
        # The server first: it would heal them.
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait(60)
        until(lambda: end_all(mark))
