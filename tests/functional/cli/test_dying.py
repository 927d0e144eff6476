"""A bug outside the guarded calls to drivers ends the process loudly: half an engine heals nobody."""

from __future__ import annotations

import os
import re
import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path

from tests.functional.cli.support import (
    POLICY,
    Server,
    living,
    profile_document,
    swept,
    wait_for,
)

DRIVER = '''
"""A detector of a stranger: whoever streams is called by the watch itself, with nothing in between."""


class Broken:
    type = "LB_STATUS_POLLING"

    def __init__(self, context):
        pass

    async def check(self, targets, mode, *, deadline_s):
        raise LookupError("a bug in check")

    def watch(self, watch_id, targets, mode, *, interval_s, sink):
        raise LookupError("a bug in watch")

    def unwatch(self, watch_id):
        pass
'''
POLLED = DRIVER.replace("    def watch(", "    def watches(")


def installed(folder: Path, driver: str) -> Path:
    """Install by hand what passes for us, with a stranger's detector in place of one of ours."""
    facts = folder / "yaffle-0.1.0.dist-info"
    facts.mkdir(parents=True)
    (folder / "broken.py").write_text(driver)
    ours = distribution("yaffle")
    (facts / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: yaffle\nVersion: {ours.version}\n"
    )
    # It stands before ours on the path, with all our drivers but one.
    points = re.sub(
        r"(?m)^LB_STATUS_POLLING = .*$",
        "LB_STATUS_POLLING = broken:Broken",
        ours.read_text("entry_points.txt") or "",
    )
    assert "broken:Broken" in points
    (facts / "entry_points.txt").write_text(points)
    return folder


@contextmanager
def watching(tmp_path: Path, driver: str, mark: str) -> Iterator[Server]:
    """A server with the driver, and a cluster whose policy uses it."""
    path = os.pathsep.join(
        filter(None, (str(installed(tmp_path / "site", driver)), os.environ.get("PYTHONPATH")))
    )
    server = Server(tmp_path / "state", env={"PYTHONPATH": path})
    text = POLICY.replace("NODE_STATUS_POLLING", "LB_STATUS_POLLING")
    with swept(mark):
        server.start()
        try:
            server.ok("profile", "create", "page", "-", given=profile_document(mark))
            server.ok("policy", "create", "care", "-", given=text)
            body = ("web", "--profile", "page", "--size", "1", "--policy", "care")
            # The server may be gone before it has answered.
            server.cli("cluster", "create", *body, "--no-wait")
            yield server
        finally:
            if server.running is not None and server.running.process.poll() is None:
                server.stop(signal.SIGKILL)


def test_a_task_that_dies_takes_the_process_with_it(tmp_path: Path) -> None:
    with watching(tmp_path, DRIVER, f"dying-{uuid.uuid4().hex}") as server:
        running = server.running
        assert running is not None
        assert running.end() not in {0, -signal.SIGKILL}
        assert "LookupError" in running.text
        assert "a bug in watch" in running.text


def test_a_bug_inside_a_guarded_call_is_survived(tmp_path: Path) -> None:
    mark = f"dying-{uuid.uuid4().hex}"
    with watching(tmp_path, POLLED, mark) as server:
        running = server.running
        assert running is not None
        wait_for(lambda: "a bug in check" in running.text)
        wait_for(lambda: living(mark))
        assert server.ok("status").code == 0
        assert running.process.poll() is None
        # A node may be looked at, and live, a moment before what made the cluster has ended.
        wait_for(lambda: status_of(server, "web") not in {"INIT", "CREATING"})
        server.ok("cluster", "delete", "web")


def status_of(server: Server, cluster: str) -> str:
    return str(server.ok("cluster", "show", cluster, "--json").json["cluster"]["status"])
