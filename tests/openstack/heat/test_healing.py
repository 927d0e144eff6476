"""A cluster of stacks in a real cloud, made, watched and healed by a real `yaffle serve`."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

from tests.functional.cli.support import Server, wait_for
from tests.openstack.heat.world import SERVER, WORD, World, spec

PROFILE = {"type": "os.heat.stack", "version": "1.0", "properties": spec(one=SERVER, word=WORD)}
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
    actions:
      - {name: STACK_UPDATE, timeout: 120}
      - {name: RECREATE, timeout: 120}
    limits: {max_unhealthy: 100%}
"""
HEAL_S = 240.0


def test_a_stack_is_healed_by_replacing_what_failed(world: World, tmp_path: Path) -> None:
    config = tmp_path / "yaffle.toml"
    config.write_text(
        '[drivers."os.heat.stack-1.0"]\n'
        f'cloud = "{world.cloud.name}"\nclouds_file = "{world.cloud.clouds_yaml}"\n'
    )
    yaffle = Server(tmp_path / "state", flags=("--config", str(config)))
    yaffle.start()
    try:
        yaffle.ok("profile", "create", "web", "-", given=json.dumps(PROFILE))
        yaffle.ok("policy", "create", "care", "-", given=POLICY)
        yaffle.ok("cluster", "create", "web", "--profile", "web", "--size", "1", "--policy", "care")
        wait_for(lambda: node(yaffle)["health"] == "healthy", within_s=HEAL_S)
        stack, server = node(yaffle)["physical_id"], one(world)

        world.cloud.guest(server).off()
        told = recovered(yaffle)
        assert "CREATE_COMPLETE with failed members" in told
        assert "STACK_UPDATE" in told
        assert node(yaffle)["physical_id"] == stack
        assert one(world) != server
    finally:
        assert yaffle.stop(signal.SIGTERM) == 0


def node(yaffle: Server) -> dict[str, Any]:
    found: dict[str, Any] = yaffle.ok("node", "list", "--json").json["nodes"][0]
    return found


def one(world: World) -> str:
    """Return the id of the project's only server."""
    (server,) = world.cloud.lab.servers_of(world.cloud.credentials.project_id)
    return server


def recovered(yaffle: Server) -> str:
    """Wait until an incident is over; return what is told of it."""

    def over() -> list[dict[str, Any]] | None:
        every = yaffle.ok("incident", "list", "--json").json["incidents"]
        return [i for i in every if i["state"] == "recovered"] or None

    (incident,) = wait_for(over, within_s=HEAL_S)
    return str(yaffle.ok("incident", "show", incident["id"], "--json").out)
