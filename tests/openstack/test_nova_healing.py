"""A cluster of servers in a real cloud, made, watched and healed by a real `yaffle serve`."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.functional.cli.support import Server, wait_for
from tests.openstack.cloud import Cloud

PROFILE = """
type: os.nova.server
version: "1.0"
properties:
  flavor: lab.tiny
  image: lab-image
  networks: none
  metadata: {role: web}
"""
POLICY = """
type: senlin.policy.health
version: "1.3"
properties:
  detection:
    interval: 2
    node_update_timeout: 5
    rise: 1
    fall: 2
    detection_modes:
      - type: NODE_STATUS_POLLING
  recovery:
    fencing: [COMPUTE]
    evidence: {console_log: true, timeout: 10}
    actions:
      - {name: START, timeout: 120}
      - {name: RECREATE, timeout: 120}
    limits: {max_unhealthy: 60%}
"""
HEAL_S = 240.0


@pytest.fixture
def yaffle(cloud: Cloud, tmp_path: Path) -> Iterator[Server]:
    """A server of Yaffle's own, whose settings name the cloud of the test."""
    config = tmp_path / "yaffle.toml"
    config.write_text(
        '[drivers."os.nova.server-1.0"]\n'
        f'cloud = "{cloud.name}"\nclouds_file = "{cloud.clouds_yaml}"\nfull_sweep = 20\n'
    )
    server = Server(tmp_path / "state", flags=("--config", str(config)))
    server.start()
    try:
        (tmp_path / "web.yaml").write_text(PROFILE)
        server.ok("profile", "create", "web", "-", given=PROFILE)
        server.ok("policy", "create", "care", "-", given=POLICY)
        server.ok("cluster", "create", "web", "--profile", "web", "--size", "3", "--policy", "care")
        wait_for(lambda: len(healthy(server)) == 3, within_s=HEAL_S)
        yield server
    finally:
        assert server.stop(signal.SIGTERM) == 0


def nodes(server: Server) -> dict[str, dict[str, Any]]:
    return {n["name"]: n for n in server.ok("node", "list", "--json").json["nodes"]}


def healthy(server: Server) -> list[str]:
    return [name for name, node in nodes(server).items() if node["health"] == "healthy"]


def incidents(server: Server) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.ok("incident", "list", "--json").json["incidents"]
    return found


def recovered(server: Server, count: int) -> list[dict[str, Any]]:
    """Wait until so many incidents are over; return them."""

    def over() -> list[dict[str, Any]] | None:
        found = [i for i in incidents(server) if i["state"] == "recovered"]
        return found if len(found) >= count else None

    return list(wait_for(over, within_s=HEAL_S))


def test_servers_are_healed_by_the_cheapest_thing_that_helps(cloud: Cloud, yaffle: Server) -> None:
    before = {name: node["physical_id"] for name, node in nodes(yaffle).items()}
    project = cloud.credentials.project_id
    assert sorted(before.values()) == sorted(cloud.lab.servers_of(project))
    seen = cloud.show(before["web-1"])
    assert seen.metadata["cluster_node_id"] == nodes(yaffle)["web-1"]["id"]
    assert seen.metadata["role"] == "web"

    # Off: the same server is switched on again.
    cloud.guest(before["web-1"]).off()
    recovered(yaffle, 1)
    wait_for(lambda: len(healthy(yaffle)) == 3, within_s=HEAL_S)
    assert nodes(yaffle)["web-1"]["physical_id"] == before["web-1"]
    cloud.until(before["web-1"], "ACTIVE")

    # Wiped from its host: Nova will not start what it believes to run, so it is killed, and that is
    # proved, before another one is made.
    cloud.guest(before["web-2"]).vanish()
    recovered(yaffle, 2)
    wait_for(lambda: len(healthy(yaffle)) == 3, within_s=HEAL_S)
    after = nodes(yaffle)["web-2"]["physical_id"]
    assert after != before["web-2"]
    (wiped,) = (i for i in incidents(yaffle) if "web-2" in str(i))
    told = yaffle.ok("incident", "show", wiped["id"], "--json").out
    assert "ACTIVE with no power" in told
    assert "nova-force-delete+instance-actions" in told
    assert "compute_terminate_instance succeeded" in told
    assert sorted(cloud.lab.servers_of(project)) == sorted(
        n["physical_id"] for n in nodes(yaffle).values()
    )

    # Deleted by hand: made anew.
    gone = before["web-3"]
    cloud.api.call("POST", "compute", f"/servers/{gone}/action", {"forceDelete": None})
    recovered(yaffle, 3)
    wait_for(lambda: len(healthy(yaffle)) == 3, within_s=HEAL_S)
    assert nodes(yaffle)["web-3"]["physical_id"] != gone

    done = yaffle.ok("cluster", "delete", "web")
    assert "web deleted" in done.out
    assert cloud.lab.servers_of(project) == []


KEEPING = POLICY.replace("{name: START, timeout: 120}", "{name: REBUILD, timeout: 120}").replace(
    "    actions:\n", "    snapshot: {take: true, timeout: 60}\n    actions:\n"
)


def test_a_disk_is_kept_where_nova_can_and_where_not_that_is_said(
    cloud: Cloud, yaffle: Server
) -> None:
    before = {name: node["physical_id"] for name, node in nodes(yaffle).items()}
    yaffle.ok("policy", "create", "keeping", "-", given=KEEPING)
    yaffle.ok("cluster", "detach", "web", "care")
    attached = yaffle.ok("cluster", "attach", "web", "keeping")
    assert "warning: recovery.snapshot: Nova takes an image of" in attached.err

    def images() -> list[dict[str, Any]]:
        query = f"/images?owner={cloud.credentials.project_id}"
        found: list[dict[str, Any]] = cloud.lab.api.get("image", query)["images"]
        return found

    # In ERROR: Nova takes none, which is said before the disk is given up, and afterwards.
    path = f"/servers/{before['web-1']}/action"
    cloud.lab.api.call("POST", "compute", path, {"os-resetState": {"state": "error"}})
    (healed,) = recovered(yaffle, 1)
    lost = "Nova takes no image of a server in ERROR"
    assert healed["reason"].startswith(f"recovered: its disk was NOT kept ({lost}")
    events = yaffle.ok("event", "list", "--node", "web-1", "--json").json["events"]
    said = [e["status"] for e in events if "its disk is NOT kept" in str(e) and lost in str(e)]
    assert "recovering" in said
    assert f"could not be kept: {lost}" in yaffle.ok("why", "web-1").out
    assert images() == []

    # One that runs is rebuilt from its own image, which goes with its node and not before.
    yaffle.ok("node", "recover", "web-2")
    recovered(yaffle, 2)
    (image,) = images()
    assert image["yaffle_purpose"] == "recovery"
    rebuilt = cloud.lab.api.get("compute", f"/servers/{before['web-2']}")["server"]
    assert rebuilt["image"]["id"] == image["id"]
    yaffle.ok("cluster", "delete", "web")
    wait_for(lambda: images() == [], within_s=HEAL_S)
