"""A host dies under three servers of one cluster: one failure, moved as one, by a real `yaffle serve`.

Then it is back with all of its guests, as one is that was only cut off: it is let in by nobody before
they are gone.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.functional.cli.support import Server, wait_for
from tests.openstack.cloud import Cloud
from tests.openstack.nova.rack import care, switched
from tests.openstack.nova.world import World

PROFILE = """
type: os.nova.server
version: "1.0"
properties: {flavor: lab.tiny, image: lab-image, networks: none}
"""
WITHIN_S = 240.0
LOST, LEFT = "cmp2", "cmp1"


@pytest.fixture
def hosts(broken_admin_world: World) -> Iterator[World]:
    """Hosts that may be frozen: only one that starts anew removes what was moved off it."""
    yield broken_admin_world
    broken_admin_world.cloud.lab.kill_host(LOST)


@pytest.fixture
def yaffle(hosts: World, tmp_path: Path) -> Iterator[Server]:
    """A server of Yaffle's own with an administrator's rights, and a power switch."""
    config = switched(hosts.cloud, tmp_path)
    server = Server(tmp_path / "state", flags=("--config", str(config)))
    server.start()
    try:
        server.ok("profile", "create", "web", "-", given=PROFILE)
        server.ok("policy", "create", "care", "-", given=json.dumps(care("40%", 3)))
        yield server
    finally:
        assert server.stop(signal.SIGTERM) == 0


def nodes(server: Server) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.ok("node", "list", "--json").json["nodes"]
    return found


def all_healthy(server: Server, count: int) -> bool:
    return sum(n["health"] == "healthy" for n in nodes(server)) == count


def closed(cloud: Cloud, host: str, *, to_new: bool) -> None:
    """Let Nova place no new servers on a host, or place some there again."""
    api = cloud.lab.api
    found = api.get("compute", f"/os-services?host={host}&binary=nova-compute")["services"]
    status = "disabled" if to_new else "enabled"
    api.call("PUT", "compute", f"/os-services/{found[0]['id']}", {"status": status})


def test_three_servers_of_a_host_that_dies_are_one_failure(
    hosts: World, yaffle: Server, tmp_path: Path
) -> None:
    cloud = hosts.cloud
    closed(cloud, LEFT, to_new=True)
    yaffle.ok("cluster", "create", "web", "--profile", "web", "--size", "3", "--policy", "care")
    wait_for(lambda: all_healthy(yaffle, 3), within_s=WITHIN_S)
    closed(cloud, LEFT, to_new=False)
    closed(cloud, LOST, to_new=True)
    yaffle.ok("cluster", "resize", "web", "--size", "4")
    wait_for(lambda: all_healthy(yaffle, 4), within_s=WITHIN_S)
    before = {n["physical_id"]: cloud.show(n["physical_id"]).host for n in nodes(yaffle)}
    assert sorted(before.values()) == [LEFT, LOST, LOST, LOST]

    cloud.lab.freeze(f"nova-compute-{LOST}")

    def over() -> list[dict[str, Any]] | None:
        found = [i for i in incidents_of(yaffle) if i["cause"] != "host-quarantined"]
        return found if found and not any(i["open"] for i in found) else None

    incidents = wait_for(over, within_s=WITHIN_S)
    (outage,) = (i for i in incidents if not i["node_id"])
    assert (outage["node"], outage["cause"], outage["state"]) == (
        f"host {LOST}@{cloud.name}",
        "host-lost",
        "recovered",
    )
    parts = [i for i in incidents if i["parent_id"] == outage["id"]]
    assert [p["state"] for p in parts] == ["recovered"] * 3
    assert len(incidents) == 4
    # The very same servers run elsewhere, after the host was proved to be off.
    after = {server: cloud.show(server) for server in before}
    assert {(s.status, s.host) for s in after.values()} == {("ACTIVE", LEFT)}
    assert (tmp_path / "power").read_text() == "off"
    moved = yaffle.ok("incident", "show", parts[0]["id"], "--json").json["incident"]
    assert {s["operation"] for s in moved["steps"]} == {"EVACUATE"}
    yaffle.ok("decision", "check")
    comes_back(cloud, yaffle, moved["node"], {s for s, host in before.items() if host == LOST})


def comes_back(cloud: Cloud, yaffle: Server, moved: str, servers: set[str]) -> None:
    """Let the host go on as it was, then start anew: only that removes what was moved off it."""
    cloud.lab.thaw(f"nova-compute-{LOST}")
    kept = wait_for(lambda: quarantine(yaffle, "is back and kept out: 3 of 3"), within_s=WITHIN_S)
    assert (kept["state"], kept["open"]) == ("held", True)
    assert set(cloud.lab.guests_of(LOST)) >= servers
    assert "kept out" in yaffle.ok("why", moved).out
    wait_for(lambda: all_healthy(yaffle, 4), within_s=WITHIN_S)
    cloud.lab.kill_host(LOST)
    cloud.lab.start_host(LOST, wait=False)
    gone = wait_for(lambda: quarantine(yaffle, "has no old copy left"), within_s=WITHIN_S)
    assert (gone["state"], gone["open"]) == ("recovered", False)
    assert not set(cloud.lab.guests_of(LOST)) & servers
    # To let it in is left to a person, who is told how.
    assert f"`openstack compute service set --up {LOST} nova-compute`" in gone["reason"]
    assert cloud.lab.host_states()[LOST] == "down"


def incidents_of(server: Server) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.ok("incident", "list", "--json").json["incidents"]
    return found


def quarantine(server: Server, words: str) -> dict[str, Any] | None:
    """Return the quarantine of the host once its reason says so."""
    found = [i for i in incidents_of(server) if i["cause"] == "host-quarantined"]
    assert len(found) <= 1
    return next((i for i in found if words in i["reason"]), None)
