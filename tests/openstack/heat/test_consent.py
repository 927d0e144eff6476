"""A lock keeps a stack, and an operator's consent makes another one beside it, with a real Heat."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.functional.cli.support import Server, wait_for
from tests.openstack.heat.test_healing import HEAL_S, PROFILE, node, one
from tests.openstack.heat.world import SERVER, World, spec

from yaffle.core.health.backend_status_codes import classify
from yaffle.model.operations import Hindrance, ProgressState

DONE, FAILED = ProgressState.DONE, ProgressState.FAILED
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
    fencing: []
    node_delete_timeout: 10
    node_force_recreate: {consent}
    actions:
      - {{name: RECREATE, timeout: 180}}
    limits: {{max_unhealthy: 100%}}
"""


def test_a_locked_server_keeps_its_stack_as_it_is(world: World) -> None:
    def act(server: str, what: str) -> None:
        world.cloud.api.call("POST", "compute", f"/servers/{server}/action", {what: None})

    async def scene() -> None:
        target = await world.made(spec(one=SERVER))
        before = world.members(target)
        server = before["/one"][0]
        act(server, "lock")
        done = await world.do("DELETE", target)
        assert (done.state, done.hindrance) == (FAILED, Hindrance.BARRED), done
        assert f"openstack server unlock {server}" in done.detail

        world.cloud.guest(server).off()
        seen = await world.until(target, up=False)
        assert classify(seen)[0] == "ST-LOCKED", seen
        done = await world.do("STACK_UPDATE", target)
        assert (done.state, done.hindrance) == (FAILED, Hindrance.BARRED), done
        assert world.members(target) == before

        act(server, "unlock")
        done = await world.do("STACK_UPDATE", target)
        assert done.state is DONE, done
        assert world.members(target)["/one"][0] != server
        assert (await world.do("DELETE", target)).state is DONE

    asyncio.run(scene())


@pytest.fixture
def yaffle(world: World, tmp_path: Path) -> Iterator[Server]:
    config = tmp_path / "yaffle.toml"
    config.write_text(
        '[drivers."os.heat.stack-1.0"]\n'
        f'cloud = "{world.cloud.name}"\nclouds_file = "{world.cloud.clouds_yaml}"\n'
    )
    server = Server(tmp_path / "state", flags=("--config", str(config)))
    server.start()
    try:
        yield server
    finally:
        assert server.stop(signal.SIGTERM) == 0


def waived(yaffle: Server) -> list[dict[str, Any]]:
    """Return every proof on record that somebody has waived."""
    listed = yaffle.ok("incident", "list", "--json").json["incidents"]
    every = [yaffle.ok("incident", "show", i["id"], "--json").json["incident"] for i in listed]
    return [p for incident in every for p in incident.get("proofs", ()) if p["waived"]]


@pytest.mark.parametrize("by_policy", [True, False], ids=["the policy's", "a person's"])
def test_with_consent_another_stack_is_made_though_the_old_one_does_not_go(
    world: World, yaffle: Server, by_policy: bool
) -> None:
    lab, mine = world.cloud.lab, world.cloud.credentials.project_id
    yaffle.ok("profile", "create", "web", "-", given=json.dumps(PROFILE))
    document = POLICY.format(consent=str(by_policy).lower())
    yaffle.ok("policy", "create", "care", "-", given=document)
    yaffle.ok("cluster", "create", "web", "--profile", "web", "--size", "1", "--policy", "care")
    wait_for(lambda: node(yaffle)["health"] == "healthy", within_s=HEAL_S)
    stack, server = node(yaffle)["physical_id"], one(world)
    host = world.cloud.show(server).host

    def made_anew() -> bool:
        now = node(yaffle)
        return bool(now["health"] == "healthy" and now["physical_id"] not in ("", stack))

    with lab.slow(host, "destroy", 3600, mine):
        if by_policy:
            world.cloud.guest(server).off()
        else:
            words = ("--operation", "RECREATE", "--delete-timeout", "10", "--force-recreate")
            yaffle.ok("node", "recover", node(yaffle)["name"], *words)
        wait_for(made_anew, within_s=HEAL_S)
        assert server in lab.guests_of(host), "the first copy does not go, and there are two"
        assert waived(yaffle)
    # It goes on being deleted, and the one that counts is left alone.
    wait_for(lambda: server not in lab.servers_of(mine), within_s=HEAL_S)
    wait_for(lambda: len(world.stacks()["stacks"]) == 1, within_s=HEAL_S)
    assert world.stacks()["stacks"][0]["id"] == node(yaffle)["physical_id"]
