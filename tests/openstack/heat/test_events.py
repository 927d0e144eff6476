"""Heat's notifications through a real broker: what failed is replaced at once, a deletion is a wish."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.functional.cli.support import Server, wait_for
from tests.openstack.hearing import until_heard
from tests.openstack.heat.test_healing import HEAL_S, PROFILE
from tests.openstack.heat.world import World
from tests.openstack.test_nova_healing import healthy, incidents, nodes, recovered

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
    actions:
      - {name: STACK_UPDATE, timeout: 120}
      - {name: RECREATE, timeout: 120}
    limits: {max_unhealthy: 100%}
"""
SOON_S = 100.0
"""Below two intervals, which is what three looks in vain take at least: nobody was polled."""


@pytest.fixture
def yaffle(world: World, tmp_path: Path) -> Iterator[Server]:
    config = tmp_path / "yaffle.toml"
    config.write_text(
        '[drivers."os.heat.stack-1.0"]\n'
        f'cloud = "{world.cloud.name}"\nclouds_file = "{world.cloud.clouds_yaml}"\n'
        "[drivers.LIFECYCLE_EVENTS.sources.lab]\n"
        f'urls = ["{world.cloud.lab.plan.bus_url}"]\nexchanges = ["heat"]\n'
    )
    server = Server(tmp_path / "state", flags=("--config", str(config)))
    server.start()
    try:
        server.ok("profile", "create", "web", "-", given=json.dumps(PROFILE))
        server.ok("policy", "create", "care", "-", given=POLICY)
        server.ok("cluster", "create", "web", "--profile", "web", "--size", "2", "--policy", "care")
        wait_for(lambda: len(healthy(server)) == 2, within_s=HEAL_S)
        until_heard(server)
        yield server
    finally:
        assert server.stop(signal.SIGTERM) == 0


def test_a_failure_is_heard_and_a_deletion_is_respected(world: World, yaffle: Server) -> None:
    before = {name: node["physical_id"] for name, node in nodes(yaffle).items()}
    path = {name: f"/yaffle-{node['id']}/{before[name]}" for name, node in nodes(yaffle).items()}

    # Somebody has Heat check a stack of which the server is off: Heat tells, and it is replaced.
    inside = world.stacks(f"{path['web-1']}/resources")["resources"]
    server = next(r["physical_resource_id"] for r in inside if r["resource_name"] == "one")
    world.cloud.guest(server).off()
    world.cloud.until(server, "SHUTOFF")
    began_s = time.monotonic()
    world.stacks(f"{path['web-1']}/actions", "POST", {"check": None})
    wait_for(lambda: incidents(yaffle), within_s=SOON_S)
    assert time.monotonic() - began_s < SOON_S
    (found,) = recovered(yaffle, 1)
    told = yaffle.ok("incident", "show", found["id"], "--json").out
    assert "STACK_UPDATE" in told
    assert nodes(yaffle)["web-1"]["physical_id"] == before["web-1"]

    # Deleted by another user of the project: Heat tells, Nova's record says who, and so it stays.
    operator = world.cloud.operator
    project = world.cloud.credentials.project_id
    operator.call("DELETE", "orchestration", f"/v1/{project}/stacks{path['web-2']}")

    def respected() -> bool:
        told = yaffle.ok("why", "web-2").out
        return "requested by user" in told and "EV-OWN-WILL" in told

    wait_for(respected, within_s=SOON_S)
    assert len(incidents(yaffle)) == 1
    assert nodes(yaffle)["web-2"]["physical_id"] == before["web-2"]
    yaffle.ok("cluster", "delete", "web")
