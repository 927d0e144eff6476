"""Nova's notifications through a real broker: the cheapest cure at once, and never against a user."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.functional.cli.support import Server, wait_for
from tests.openstack.cloud import Cloud
from tests.openstack.hearing import until_heard
from tests.openstack.test_nova_healing import HEAL_S, PROFILE, healthy, incidents, nodes, recovered

POLICY = """
type: senlin.policy.health
version: "1.3"
properties:
  detection:
    interval: 60
    node_update_timeout: 180
    rise: 1
    fall: 3
    detection_modes:
      - type: LIFECYCLE_EVENTS
  recovery:
    fencing: [COMPUTE]
    actions:
      - {name: RECREATE, timeout: 120}
    limits: {max_unhealthy: 60%}
"""
SOON_S = 100.0
"""Below two intervals, which is what three looks in vain take at least: nobody was polled."""


@pytest.fixture
def yaffle(cloud: Cloud, tmp_path: Path) -> Iterator[Server]:
    config = tmp_path / "yaffle.toml"
    config.write_text(
        '[drivers."os.nova.server-1.0"]\n'
        f'cloud = "{cloud.name}"\nclouds_file = "{cloud.clouds_yaml}"\n'
        "[drivers.LIFECYCLE_EVENTS.sources.lab]\n"
        f'urls = ["{cloud.lab.plan.bus_url}"]\nexchanges = ["nova"]\n'
    )
    server = Server(tmp_path / "state", flags=("--config", str(config)))
    server.start()
    try:
        server.ok("profile", "create", "web", "-", given=PROFILE)
        server.ok("policy", "create", "care", "-", given=POLICY)
        server.ok("cluster", "create", "web", "--profile", "web", "--size", "2", "--policy", "care")
        wait_for(lambda: len(healthy(server)) == 2, within_s=HEAL_S)
        until_heard(server)
        yield server
    finally:
        assert server.stop(signal.SIGTERM) == 0


def test_an_accident_is_undone_at_once_and_a_wish_is_respected(
    cloud: Cloud, yaffle: Server
) -> None:
    before = {name: node["physical_id"] for name, node in nodes(yaffle).items()}
    # Grace after its creation is over; from now on a failure counts at once.
    wait_for(lambda: len(healthy(yaffle)) == 2)

    # Off by itself: Nova tells it, Yaffle starts it again, though the policy knows only RECREATE.
    began_s = time.monotonic()
    cloud.guest(before["web-1"]).off()
    (found,) = recovered(yaffle, 1)
    assert time.monotonic() - began_s < SOON_S
    assert nodes(yaffle)["web-1"]["physical_id"] == before["web-1"], "started, not built anew"
    cloud.until(before["web-1"], "ACTIVE")
    told = yaffle.ok("incident", "show", found["id"], "--json").out
    assert "START" in told
    (action,) = [
        a
        for a in yaffle.ok("action", "list", "--json").json["actions"]
        if a["action"] == "NODE_RECOVER"
    ]
    assert action["inputs"]["event"] == "POWER_OFF"
    assert action["inputs"]["instance_id"] == before["web-1"]

    # Stopped by its user: that is no failure, and nobody starts it against their will.
    asked = f"/servers/{before['web-2']}/action"
    cloud.operator.call("POST", "compute", asked, {"os-stop": None})
    cloud.until(before["web-2"], "SHUTOFF")

    def respected() -> bool:
        return "requested by user" in yaffle.ok("why", "web-2").out

    wait_for(respected, within_s=SOON_S)
    assert len(incidents(yaffle)) == 1
    assert cloud.show(before["web-2"]).status == "SHUTOFF"
    # It is not said to be active, nor is its cluster.
    left = wait_for(lambda: (n := nodes(yaffle)["web-2"])["status"] == "WARNING" and n)
    assert left["status_reason"].startswith("It is left as it is: ")
    cluster = yaffle.ok("cluster", "show", "web", "--json").json["cluster"]
    assert (cluster["status"], "below desired_capacity" in cluster["status_reason"]) == (
        "WARNING",
        True,
    )

    # Switched on again by its user, it is watched as before.
    cloud.operator.call("POST", "compute", asked, {"os-start": None})
    cloud.until(before["web-2"], "ACTIVE")
    wait_for(lambda: nodes(yaffle)["web-2"]["status"] == "ACTIVE", within_s=SOON_S)
    cloud.guest(before["web-2"]).off()
    recovered(yaffle, 2)
    assert nodes(yaffle)["web-2"]["physical_id"] == before["web-2"]
    yaffle.ok("cluster", "delete", "web")
