"""The demo's world: a folder, a server of its own, three nodes; and the certainty that all of it goes.

Every process that belongs to it carries the folder's name in its environment, so that what is left
at the end is found without trusting the server whose work is being shown.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from yaffle.cli.client import address
from yaffle.cli.client.deadlines import Deadline, pause
from yaffle.cli.client.native import Api, Refused, Row, ServerAway, inner, rows
from yaffle.cli.commands.cluster_creation import begun, named
from yaffle.cli.demo.cleanup import KILL_S, MARK, end_all, members
from yaffle.cli.documents import plain
from yaffle.errors import YaffleError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CLUSTER: Final = "web"
SIZE: Final = 3
START_S: Final = 30.0
HEALTHY_S: Final = 40.0
REMOVE_S: Final = 20.0
STOP_S: Final = 10.0


class DemoFailed(YaffleError):
    """The demo did not get where it should; the message says where it stood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A node's own answer at its URL."""

    pid: int


class World:
    """Made by `start`, gone after `remove`, whatever happened between."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="yaffle-demo-"))
        self.url = ""
        self.card = address.Card(url="", pid=0)
        """Where the server is, once it has started."""
        self._server: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    # --- beginning -------------------------------------------------------------------------------

    def start(self, deadline: Deadline) -> None:
        """Start the server and wait until it answers; raise DemoFailed with the end of its log."""
        self._guard = subprocess.Popen(
            [sys.executable, "-P", "-m", "yaffle.cli.demo.cleanup", str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        state = self.folder / "state"
        log = self.folder / "server.log"
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("YAFFLE_", "NOTIFY_"))}
        command = [sys.executable, "-P", "-m", "yaffle.cli", "serve", "--allow-local-process"]
        command += ["--listen", "127.0.0.1:0", "--state-dir", str(state)]
        with log.open("wb") as out:
            # A session of its own: Ctrl-C is ours to handle, in the right order.
            self._server = subprocess.Popen(
                command,
                env={**environ, MARK: self.folder.name},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        while (card := address.read(state)) is None:
            if self._server.poll() is not None or deadline.over:
                raise DemoFailed(f"the server did not start:\n{self.log_end()}")
            pause(0.05)
        self.url, self.card = card.url, card

    def build(self, api: Api, deadline: Deadline) -> None:
        """Create profile, policy and cluster, as any user would, and wait until all are healthy."""
        page = str(files("yaffle.cli.demo") / "page.py")
        spec = {
            "command": [sys.executable, "-I", page, "{nodename}", "{port}"],
            "env": {MARK: self.folder.name},
            "port": "auto",
            "stop_timeout": 3,
        }
        text = (files("yaffle.cli.demo") / "policy.yaml").read_text()
        profile = {"type": "yaffle.local.process", "version": "1.0", "properties": spec}
        api.v1.post("profiles", body={"profile": {"name": CLUSTER, "spec": profile}})
        policy = plain("demo/policy.yaml", text)
        api.v1.post("policies", body={"policy": {"name": "demo", "spec": policy}})
        begun(api, {**named(CLUSTER), "profile_id": CLUSTER, "desired_capacity": SIZE}, ["demo"])
        while not all_healthy(found := self.nodes(api)):
            if deadline.over:
                raise DemoFailed(f"not all nodes became healthy in time: {summary(found)}")
            pause(0.1)

    # --- looking ---------------------------------------------------------------------------------

    def nodes(self, api: Api) -> list[Row]:
        """Return the nodes by name."""
        found = rows(api.get("nodes", cluster=CLUSTER), "nodes")
        return sorted(found, key=lambda row: str(row.get("name")))

    def log_end(self) -> str:
        """Return the last lines of the server's log."""
        try:
            return "\n".join((self.folder / "server.log").read_text().splitlines()[-15:])
        except (OSError, UnicodeDecodeError):
            return "(its log cannot be read)"

    def members(self) -> Mapping[int, str]:
        """Return pid and command of every living process of the demo, server included."""
        return members(self.folder)

    # --- end -------------------------------------------------------------------------------------

    def remove(self) -> tuple[str, ...]:
        """Delete the cluster, stop the server, kill what is left, remove the folder.

        Returns what did not go as it should; never raises.
        """
        problems = [*self._delete_cluster(), *self._stop_server(), *end_all(self.folder)]
        if self._guard is not None:
            problems += self._dismiss(self._guard)
        return tuple(problems)

    def _delete_cluster(self) -> Iterator[str]:
        if not self.url:
            return
        deadline = Deadline(REMOVE_S)
        try:
            with Api(self.url) as api:
                api.v1.start("DELETE", "clusters", CLUSTER, body={"force": True})
                while self.nodes(api):
                    if deadline.over:
                        yield "the nodes were not deleted in time"
                        return
                    pause(0.1)
        except Refused as error:
            # 404 is what we want to hear, here and from the list of its nodes.
            if error.status != 404:
                yield f"the cluster was not deleted: {error}"
        except (ServerAway, YaffleError) as error:
            yield f"the server is away: {error}"

    def _dismiss(self, guard: subprocess.Popen[bytes]) -> Iterator[str]:
        try:
            guard.communicate(timeout=2 * KILL_S)
        except subprocess.TimeoutExpired:
            guard.kill()
            guard.wait()
            yield "the guard did not end by itself"

    def _stop_server(self) -> Iterator[str]:
        if self._server is None:
            return
        self._server.terminate()
        try:
            self._server.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
            yield "the server did not stop by itself"


def inspect_node(row: Row, timeout_s: float = 2.0) -> Answer | None:
    """Ask a node's own URL, without Yaffle; None while nothing answers."""
    attributes = inner(row, "attributes")
    host, port = attributes.get("node_ip"), attributes.get("port")
    if not isinstance(host, str) or not isinstance(port, int):
        return None
    connection = HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request("GET", "/")
        answer = connection.getresponse()
        return Answer(pid=int(answer.headers["x-pid"])) if answer.status == 200 else None
    except (OSError, HTTPException, TypeError, ValueError):
        return None
    finally:
        connection.close()


def node_url(row: Row) -> str:
    """Return the address of a node's page."""
    attributes = inner(row, "attributes")
    return f"http://{attributes.get('node_ip')}:{attributes.get('port')}/"


def all_healthy(found: list[Row]) -> bool:
    """Whether the cluster is complete and well."""
    return len(found) == SIZE and all(
        row.get("health") == "healthy" and row.get("status") == "ACTIVE" for row in found
    )


def summary(found: list[Row]) -> str:
    """Return the nodes on one line."""
    return ", ".join(
        f"{row.get('name')} {row.get('status')} {row.get('health')} {row.get('health_reason')}".strip()
        for row in found
    )
