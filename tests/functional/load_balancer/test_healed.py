"""A node is healed because a real HAProxy finds it down; while HAProxy is silent, none is."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.contract.load_balancer.proxy import HAVE, Proxy
from tests.functional.cli.support import Server, pages, profile_document, swept, wait_for
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(not HAVE, reason="there is no haproxy")

PATIENT = {"YAFFLE_ENGINE__LEASE": "120"}
"""Of a server that is never killed nobody waits for the lease; one that runs out is another story."""
POLICY = """\
type: senlin.policy.health
version: "1.3"
properties:
  detection:
    interval: 1
    node_update_timeout: 3
    rise: 1
    fall: 2
    detection_modes:
      - {type: LB_STATUS_POLLING, options: {pool: web, balancer: edge}}
  recovery:
    actions:
      - {name: REBOOT, params: {type: HARD}, timeout: 120}
    limits: {max_unhealthy: 1, max_in_flight: 1}
"""


@pytest.fixture
def listening() -> Iterator[Path]:
    """Where HAProxy will listen; short, as the path of a socket has to be."""
    with tempfile.TemporaryDirectory(prefix="yaffle-lb-") as folder:
        yield Path(folder) / "s"


def pid_of(mark: str, name: str) -> int | None:
    """Return None between two lives."""
    return pages(mark).get(name, (0, None))[1]


def incidents(server: Server) -> list[dict[str, Any]]:
    """Return all, the first one first."""
    found = server.ok("incident", "list", "--json").json["incidents"]
    return sorted(found, key=lambda one: one["opened_us"])


def over(found: list[dict[str, Any]]) -> bool:
    """Whether the first one was healed and none is left: a node is well before its recovery has ended.

    A page that takes long to start may be found down once more, and well again.
    """
    states = [one["state"] for one in found]
    return states[:1] == ["recovered"] and {*states} <= {"recovered", "already-healthy"}


def seen(server: Server, name: str) -> str:
    return str(server.ok("node", "show", name, "--json").json["node"]["health"])


def test_a_node_that_hangs_is_healed_on_haproxys_word(tmp_path: Path, listening: Path) -> None:
    mark = f"balanced-{uuid.uuid4().hex}"
    settings = tmp_path / "yaffle.toml"
    settings.write_text(
        f'[drivers.LB_STATUS_POLLING.balancers.edge]\ntype = "haproxy"\nsocket = "{listening}"\n'
    )
    flags = ("--allow-local-process", "--config", str(settings))
    server = Server(tmp_path / "state", flags=flags, env=PATIENT)
    with swept(mark):
        server.start()
        try:
            server.ok("profile", "create", "page", "-", given=profile_document(mark))
            server.ok("policy", "create", "care", "-", given=POLICY)
            body = ("web", "--profile", "page", "--size", "3", "--policy", "care")
            server.ok("cluster", "create", *body)
            there = wait_for(lambda: (p := pages(mark)) and len(p) == 3 and p)
            sick, *well = sorted(there)
            # Nobody listens where the balancer is to be: nothing is known, and nothing is done.
            missing = "edge/web: No such file or directory"
            wait_for(lambda: missing in server.ok("why", sick).out)
            assert seen(server, sick) in {"initializing", "unknown"}

            lines = "".join(
                f"    server {name} 127.0.0.1:{port} check\n" for name, (port, _) in there.items()
            )
            check = "    option httpchk\n    http-check send meth GET uri /health\n"
            # Twice that long nobody is kept waiting who merely shares a busy machine.
            check += "    timeout check 4s\n"
            proxy = Proxy(f"backend web\n{check}{lines}", socket_to_listen=listening)
            try:
                for name in there:
                    wait_for(lambda name=name: seen(server, name) == "healthy")
                before = {name: pid for name, (_, pid) in there.items()}
                # It takes connections and answers none: only who asks it for a page finds out.
                os.kill(before[sick], signal.SIGSTOP)
                # That it is DOWN may be over before we look; the story below tells it, too.
                wait_for(
                    lambda: (
                        proxy.status("web", sick) == "DOWN"
                        or pid_of(mark, sick) not in {None, before[sick]}
                    )
                )
                wait_for(lambda: pid_of(mark, sick) not in {None, before[sick]})
                wait_for(lambda: proxy.status("web", sick).startswith("UP"))
                found = wait_until(lambda: incidents(server), over)
                assert {name: pid_of(mark, name) for name in well} == {n: before[n] for n in well}
                assert {one["node"] for one in found} == {sick}
                assert found[0]["cause"] == "out-of-rotation"
                story = server.ok("incident", "show", found[0]["id"]).out
                assert f"edge/web: server {sick} is DOWN, L7TOUT" in story

                # Frozen, it says nothing of anybody, and a node that dies then is left alone.
                proxy.freeze()
                os.kill(before[well[0]], signal.SIGSTOP)
                wait_for(lambda: seen(server, well[0]) == "unknown")
                assert not server.ok("incident", "list", "--open", "--json").json["incidents"]
                os.kill(before[well[0]], signal.SIGCONT)
            finally:
                proxy.end()
            server.ok("cluster", "delete", "web")
        finally:
            if server.running is not None:
                server.stop()


def told(server: Server, result: str) -> float:
    """Return how many lines of the balancer's log came to that."""
    return counted(
        server, f'yaffle_messages_heard_total{{mode="LB_STATUS_POLLING",result="{result}"}}'
    )


def counted(server: Server, name: str) -> float:
    """Return the sum of the metrics whose line begins so."""
    url = json.loads((server.state_dir / "server.json").read_text())["url"]
    lines = httpx.get(f"{url}/metrics", timeout=60).text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


def test_what_haproxy_logs_is_known_long_before_the_next_poll(
    tmp_path: Path, listening: Path
) -> None:
    mark = f"told-{uuid.uuid4().hex}"
    settings, events = tmp_path / "yaffle.toml", listening.with_name("e")
    settings.write_text(
        f'[drivers.LB_STATUS_POLLING.balancers.edge]\ntype = "haproxy"\n'
        f'socket = "{listening}"\nevents = "{events}"\n'
    )
    flags = ("--allow-local-process", "--config", str(settings))
    server = Server(tmp_path / "state", flags=flags, env=PATIENT)
    with swept(mark):
        server.start()
        try:
            server.ok("profile", "create", "page", "-", given=profile_document(mark))
            rare = POLICY.replace("interval: 1\n", "interval: 300\n")
            rare = rare.replace("node_update_timeout: 3\n", "node_update_timeout: 600\n")
            server.ok("policy", "create", "care", "-", given=rare)
            body = ("web", "--profile", "page", "--size", "2", "--policy", "care")
            server.ok("cluster", "create", *body)
            there = wait_for(lambda: (p := pages(mark)) and len(p) == 2 and p)
            # What is logged before anybody is watched is heard by nobody.
            wait_for(lambda: events.exists() and counted(server, "yaffle_nodes{") == len(there))
            lines = "".join(
                f"    server {name} 127.0.0.1:{port} check\n" for name, (port, _) in there.items()
            )
            log = f"    log {events} local0 notice\n    option log-health-checks\n"
            proxy = Proxy(f"backend web\n{log}{lines}", socket_to_listen=listening)
            try:
                for name in there:
                    wait_for(lambda name=name: seen(server, name) == "healthy")
                sick, well = sorted(there)
                os.kill(there[sick][1], signal.SIGKILL)
                wait_for(lambda: pid_of(mark, sick) not in {None, there[sick][1]})
                wait_for(lambda: seen(server, sick) == "healthy")
                found = wait_until(lambda: incidents(server), over)
                assert pid_of(mark, well) == there[well][1]
                assert {one["node"] for one in found} == {sick}
                assert found[0]["cause"] == "out-of-rotation"
                wait_for(lambda: told(server, "woke") >= 2)
                assert f"edge at {events}" in server.ok("doctor").out
            finally:
                proxy.end()
            server.ok("cluster", "delete", "web")
        finally:
            if server.running is not None:
                server.stop()
