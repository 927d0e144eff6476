"""The units under a real systemd: started, watched, restarted, stopped, with nodes of their own."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator

import httpx
import pytest
from tests.packaging.booted import HOME, SAID, Booted, missing, until
from tests.servers.process import free_port

pytestmark = [
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason=missing() or "-"),
]

CONFIG = """\
[server]
listen = "127.0.0.1:0"
[local_process]
enabled = true
[receivers]
keys_file = "/etc/yaffle/receivers.key"
[log]
format = "json"
"""
# The pace of a test; everything else is the unit's own.
SOON = """\
[Service]
WatchdogSec=8s
RestartSec=200ms
StandardOutput=append:/run/said
StandardError=append:/run/said
"""
PROFILE = """\
type: yaffle.local.process
version: "1.0"
properties:
  command: [/usr/bin/python3, -I, -S, /opt/yaffle/page.py, "{nodename}", "{port}"]
"""
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
      - {type: NODE_STATUS_POLL_URL, options: {poll_url: "http://{node_ip}:{port}/health"}}
  recovery:
    fencing: [COMPUTE]
    actions:
      - {name: RECREATE, timeout: 20}
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Booted]:
    folder = tmp_path_factory.mktemp("host")
    booted = Booted(
        folder,
        config={
            "yaffle.toml": CONFIG,
            "receivers.key": base64.b64encode(os.urandom(32)).decode(),
            "profile.yaml": PROFILE,
            "policy.yaml": POLICY,
        },
        drop_ins={f"yaffle{unit}.service": SOON for unit in ("", "-engine@", "-api@")},
    )
    yield booted
    booted.close()


def nodes(host: Booted) -> dict[str, str]:
    """Return each node's name and health."""
    found = json.loads(host.yaffle("node", "list", "--json"))["nodes"]
    return {n["name"]: n["health"] for n in found}


def pids(host: Booted) -> set[str]:
    """Return the processes of the nodes."""
    return set(
        host.run("pgrep", "-f", "^/usr/bin/python3 -I -S /opt/yaffle/page.py").stdout.split()
    )


def all_well(host: Booted) -> bool:
    return list(nodes(host).values()) == ["healthy"] * 2


def main_pid(host: Booted) -> str:
    return host.show("yaffle.service", "MainPID")


def active_again(host: Booted, old: str) -> bool:
    # Both in one answer: between two it may have ended.
    found = host.ok("systemctl", "show", "--property=ActiveState,MainPID", "yaffle.service")
    return "ActiveState=active" in found and f"MainPID={old}\n" not in found


@pytest.mark.timeout(500)
def test_the_life_of_the_service(host: Booted) -> None:
    # Started: systemctl returns once it has said that it is ready.
    host.ok("systemctl", "start", "yaffle.service")
    assert host.show("yaffle.service", "StatusText").startswith("listening on 127.0.0.1:")
    user = host.ok("ps", "-o", "user=", "-p", main_pid(host)).strip()
    assert user == "yaffle"
    assert host.ok("stat", "-c", "%a %U", "/var/lib/yaffle").strip() == "700 yaffle"
    assert host.ok("stat", "-c", "%a %U:%G", "/etc/yaffle/yaffle.toml").strip() == "640 root:yaffle"

    # As an operator: a cluster of local processes, which live in the unit's control group.
    for kind, name in (("profile", "page"), ("policy", "care")):
        host.yaffle(kind, "create", name, f"/etc/yaffle/{kind}.yaml")
    host.yaffle("cluster", "create", "web", "--profile", "page", "--size", "2", "--policy", "care")
    until(lambda: all_well(host))
    before = pids(host)
    assert len(before) == 2

    # What names no installation speaks of the service's.
    found = json.loads(host.yaffle("db", "check", "--json", state_dir=""))
    assert (found["database"], found["problems"]) == ("/var/lib/yaffle/yaffle.db", [])
    checks = json.loads(host.yaffle("doctor", "--json", state_dir=""))["checks"]
    rows = {check["name"]: check for check in checks}
    assert rows["here: config"]["detail"] == "/etc/yaffle/yaffle.toml"
    assert "/var/lib/yaffle/yaffle.db" in rows["here: database"]["detail"]
    assert rows["server"]["status"] == "ok"

    # Typed as root it is done as the service's user: what it judges, and leaves, is the service's.
    done = host.run(f"{HOME}/bin/yaffle", "doctor", "--json")
    assert "as yaffle, with the settings of /etc/yaffle/yaffle.toml" in done.stderr
    checks = json.loads(done.stdout)["checks"]
    assert {c["name"]: c["detail"] for c in checks if c["status"] != "ok"} == {}
    host.ok(f"{HOME}/bin/yaffle", "db", "prune")
    assert host.ok("find", "/var/lib/yaffle", "!", "-user", "yaffle") == ""

    # Restarted: only Yaffle itself is another one.
    old = main_pid(host)
    host.ok("systemctl", "restart", "yaffle.service")
    assert main_pid(host) != old
    assert pids(host) == before
    until(lambda: all_well(host))

    # Frozen: nobody feeds the watchdog. It is ended and started again; the nodes notice nothing.
    old = main_pid(host)
    host.ok("kill", "-STOP", old)
    until(lambda: active_again(host, old))
    assert "Fatal Python error: Aborted" in host.ok("cat", SAID)
    assert pids(host) == before

    # Killed: the same.
    old = main_pid(host)
    host.ok("kill", "-KILL", old)
    until(lambda: active_again(host, old))
    until(lambda: all_well(host))
    assert pids(host) == before

    # It heals on.
    victim = min(before)
    host.ok("kill", "-KILL", victim)
    until(lambda: len(pids(host)) == 2 and victim not in pids(host))
    until(lambda: all_well(host))

    # Stopped: in order, and the nodes go on.
    host.ok("systemctl", "stop", "yaffle.service")
    assert host.show("yaffle.service", "ActiveState") == "inactive"
    assert host.show("yaffle.service", "Result") == "success"
    assert len(pids(host)) == 2
    host.ok("systemctl", "start", "yaffle.service")
    until(lambda: all_well(host))
    host.yaffle("cluster", "delete", "web")
    assert pids(host) == set()
    host.ok("systemctl", "stop", "yaffle.service")


@pytest.mark.timeout(240)
def test_a_wrong_setting_is_not_tried_again_and_again(host: Booted) -> None:
    host.ok("systemctl", "stop", "yaffle.service")
    host.ok("sh", "-c", "echo 'YAFFLE_ENGINE__LEASE=long' > /etc/yaffle/yaffle.env")
    assert host.run("systemctl", "start", "yaffle.service").returncode != 0
    assert host.show("yaffle.service", "ExecMainStatus") == "2"
    assert host.show("yaffle.service", "ActiveState") == "failed"
    assert host.show("yaffle.service", "NRestarts") == "0"
    host.ok("rm", "/etc/yaffle/yaffle.env")


@pytest.mark.timeout(400)
def test_hardened_engines_and_apis_do_their_work(host: Booted, postgres_url: str) -> None:
    """Of one each, named by their ports: what they are forbidden is nothing that they need."""
    host.ok("systemctl", "stop", "yaffle.service")
    host.ok("sh", "-c", f"echo 'YAFFLE_DATABASE__URL={postgres_url}' > /etc/yaffle/yaffle.env")
    host.ok("/opt/yaffle/bin/yaffle", "db", "migrate", "--database", postgres_url)
    engine, api = free_port(), free_port()
    units = [f"yaffle-engine@{engine}.service", f"yaffle-api@{api}.service"]
    try:
        host.ok("systemctl", "start", *units)
        for unit, port in zip(units, (engine, api), strict=True):
            assert host.show(unit, "StatusText").startswith(f"listening on 127.0.0.1:{port}")
            until(lambda port=port: health(port) == "pass")
        state = f"/var/lib/yaffle/api-{api}"
        said = json.loads(host.yaffle("doctor", "--json", state_dir=state))
        assert {c["name"] for c in said["checks"] if c["status"] == "fail"} == set()
        # A URL is really asked: the prober's sockets and limits are among what is let through.
        for part in ("prober", "engine"):
            until(lambda part=part: f'yaffle_part_up{{part="{part}"}} 1.0' in metrics(engine))

        # Frozen, it is ended by the watchdog and comes back.
        old, restarts = host.show(units[0], "MainPID"), int(host.show(units[0], "NRestarts"))
        host.ok("kill", "-STOP", old)
        until(lambda: int(host.show(units[0], "NRestarts")) > restarts and health(engine) == "pass")
    finally:
        host.run("systemctl", "stop", *units)
        host.run("rm", "/etc/yaffle/yaffle.env")
    assert [host.show(unit, "Result") for unit in units] == ["success"] * 2


def metrics(port: int) -> str:
    """Return what a process counts."""
    return httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=60, trust_env=False).text


def health(port: int) -> str:
    """Return what a process says of itself; empty while it does not answer."""
    try:
        answer = httpx.get(f"http://127.0.0.1:{port}/health", timeout=30, trust_env=False)
        return str(answer.json()["status"])
    except (httpx.HTTPError, ValueError):
        return ""
