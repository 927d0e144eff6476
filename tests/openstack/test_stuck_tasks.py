"""Servers that Nova has forgotten in the middle of a task are healed, each by what it takes."""

from __future__ import annotations

import functools
import json
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest
from lab.openstack import bus, database
from lab.openstack.catalog import grant
from tests.functional.cli.support import Server, wait_for
from tests.openstack.cloud import Cloud

from yaffle.integrations.openstack.servers.stuck_tasks import AT_FIRST_BUILD

PROFILE = '{"type": "os.nova.server", "version": "1.0", "properties": PROPERTIES}'
PROPERTIES = {"flavor": "lab.tiny", "image": "lab-image", "networks": "none"}
POLICY = """
type: senlin.policy.health
version: "1.3"
properties:
  detection:
    interval: 2
    node_update_timeout: 4
    rise: 1
    fall: 1
    detection_modes:
      - type: NODE_STATUS_POLLING
  recovery:
    fencing: [COMPUTE]
    actions:
      - {name: START, timeout: 60}
      - {name: RECREATE, timeout: 120}
    limits: {max_unhealthy: 100%}
    # A host that a busy machine keeps silent is none to build on for a while.
    retry: {attempts: 20, backoff: 5, max_backoff: 10}
"""
STUCK_S = 6
HEAL_S = 240.0
DELETED: Final = re.compile("create( resetState delete)+")
"""Once more where the host did not begin it within the time of a task that moves no more."""


def forget(cloud: Cloud, tasks: dict[str, str]) -> None:
    """Leave servers as those whose message was lost: the word is in Nova's record, and no host knows."""
    changes = [
        f"UPDATE instances SET task_state = '{t}' WHERE uuid = '{s}'" for s, t in tasks.items()
    ]
    # All at once: whoever looks sees none of them alone.
    database.execute(cloud.lab.plan, "; ".join(changes), database="nova")


def cut_off(cloud: Cloud, server: str) -> None:
    """Leave a server as one whose host was cut off amid its build: it has given up, and told nobody.

    A host that gives a build up cleans up behind itself; so the guest is wiped. That comes last: of one
    that Nova believes to be done, it would be a failure of another kind.
    """
    guest = cloud.guest(server)
    instance = f"""
        UPDATE instances SET vm_state = 'building', task_state = 'spawning', power_state = 0,
        launched_at = NULL WHERE uuid = '{server}'"""
    event = f"""
        UPDATE instance_actions_events SET finish_time = NULL, result = NULL
        WHERE event = 'compute__do_build_and_run_instance' AND action_id IN
        (SELECT id FROM instance_actions WHERE instance_uuid = '{server}')"""
    database.execute(cloud.lab.plan, f"{instance}; {event}", database="nova")
    guest.vanish()


@pytest.fixture
def yaffle(cloud: Cloud, tmp_path: Path) -> Iterator[Server]:
    """A Yaffle whose user is an administrator, with two servers that are well."""
    with watching(cloud, tmp_path) as server:
        yield server


@contextmanager
def watching(cloud: Cloud, tmp_path: Path, policy: str = POLICY) -> Iterator[Server]:
    """Give such a Yaffle."""
    mine = cloud.credentials
    grant(cloud.lab.api, project=mine.project_id, user=mine.user_id, role="admin")
    config = tmp_path / "yaffle.toml"
    config.write_text(
        f'[drivers."os.nova.server-1.0"]\ncloud = "{cloud.name}"\n'
        f'clouds_file = "{cloud.clouds_yaml}"\n'
        f"stuck_after = {STUCK_S}\nstuck_after_long = {STUCK_S}\n"
    )
    server = Server(tmp_path / "state", flags=("--config", str(config)))
    server.start()
    try:
        profile = PROFILE.replace("PROPERTIES", json.dumps(PROPERTIES))
        server.ok("profile", "create", "web", "-", given=profile)
        server.ok("policy", "create", "care", "-", given=policy)
        server.ok("cluster", "create", "web", "--profile", "web", "--size", "2", "--policy", "care")
        wait_for(lambda: well(server) == 2, within_s=HEAL_S, every_s=0.3)
        yield server
    finally:
        assert server.stop(signal.SIGTERM) == 0


def nodes(server: Server) -> dict[str, dict[str, Any]]:
    return {n["name"]: n for n in server.ok("node", "list", "--json").json["nodes"]}


def well(server: Server) -> int:
    return sum(n["health"] == "healthy" for n in nodes(server).values())


def acts(cloud: Cloud, ident: str) -> list[str]:
    """Return what was asked of a server, the oldest first."""
    found = cloud.lab.api.get("compute", f"/servers/{ident}/os-instance-actions")["instanceActions"]
    return [act["action"] for act in reversed(found)]


def incidents(server: Server) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.ok("incident", "list", "--json").json["incidents"]
    return found


def healed(server: Server, count: int = 1) -> list[dict[str, Any]]:
    """Wait until both are well and all that was wrong is over; return what that was."""

    def over() -> list[dict[str, Any]]:
        # In this order: what opens only after the look at the nodes has to be seen.
        if well(server) < 2:
            return []
        found = incidents(server)
        ended = all(i["state"] == "recovered" for i in found)
        return found if ended and len(found) >= count else []

    return wait_for(over, within_s=HEAL_S, every_s=0.3, why=lambda: incidents(server))


def unjudged_s(incident: dict[str, Any], since_s: float) -> float:
    """Return for how long, from a moment on, it was not yet called a failure."""
    return datetime.fromisoformat(incident["opened_at"]).timestamp() - since_s


def accepted(cloud: Cloud) -> int:
    """Return how many servers Nova has promised to make: only by then has it told its conductor."""
    mine, asked = cloud.credentials.project_id, '"POST /v2.1/servers" status: 202'
    lines = (cloud.lab.plan.log / "nova.log").read_text().splitlines()
    return sum(mine in line and asked in line for line in lines)


def test_what_nova_has_forgotten_is_healed(cloud: Cloud, yaffle: Server) -> None:
    before = {name: node["physical_id"] for name, node in nodes(yaffle).items()}
    began_s = time.time()
    forget(cloud, {before["web-1"]: "deleting", before["web-2"]: "powering-off"})
    over = healed(yaffle, 2)
    assert len(over) == 2
    # Unclear at first: it might be on its way.
    assert min(unjudged_s(i, began_s) for i in over) > STUCK_S
    told = {i["node"]: yaffle.ok("incident", "show", i["id"], "--json").out for i in over}
    # The deletion was finished and proved, and another server made.
    after = {name: node["physical_id"] for name, node in nodes(yaffle).items()}
    assert after["web-1"] != before["web-1"]
    assert DELETED.fullmatch(" ".join(acts(cloud, before["web-1"])))
    assert "Nova's task deleting has not moved for more than 6 s" in told["web-1"]
    assert "compute_terminate_instance succeeded" in told["web-1"]
    # The other one is the same as before: Nova knows again that it runs.
    assert after["web-2"] == before["web-2"]
    assert acts(cloud, before["web-2"]) == ["create", "resetState"]
    assert "Nova's task powering-off has not moved" in told["web-2"]
    assert sorted(cloud.lab.servers_of(cloud.credentials.project_id)) == sorted(after.values())


def test_a_first_build_that_its_host_never_ends_is_given_up(cloud: Cloud, yaffle: Server) -> None:
    before = {name: node["physical_id"] for name, node in nodes(yaffle).items()}
    began_s = time.time()
    cut_off(cloud, before["web-1"])
    (over,) = healed(yaffle)
    # Its host may be at it, by Nova's record: it is waited for, and for twice as long as else.
    assert unjudged_s(over, began_s) > AT_FIRST_BUILD * STUCK_S
    assert over["node"] == "web-1"
    told = yaffle.ok("incident", "show", over["id"], "--json").out
    assert "Nova's task spawning has not moved for more than 6 s" in told, told
    after = {name: node["physical_id"] for name, node in nodes(yaffle).items()}
    assert after["web-1"] != before["web-1"]
    assert after["web-2"] == before["web-2"]
    assert DELETED.fullmatch(" ".join(acts(cloud, before["web-1"])))
    assert acts(cloud, before["web-2"]) == ["create"]
    assert sorted(cloud.lab.servers_of(cloud.credentials.project_id)) == sorted(after.values())


def test_a_server_of_which_no_conductor_ever_heard_is_made_once_more(
    broken_cloud: Cloud, tmp_path: Path
) -> None:
    cloud, lab = broken_cloud, broken_cloud.lab
    servers = functools.partial(lab.servers_of, cloud.credentials.project_id)
    with watching(cloud, tmp_path, POLICY.replace("timeout: 120", "timeout: 10")) as yaffle:
        before = {name: node["physical_id"] for name, node in nodes(yaffle).items()}
        yaffle.ok("stop", "--all", "--reason", "the request for the new one is to be lost")
        gone = f"/servers/{before['web-1']}"
        lab.api.call("POST", "compute", f"{gone}/action", {"forceDelete": None})
        assert lab.api.gone("compute", gone, HEAL_S)
        known = accepted(cloud)
        with lab.stopped("nova-conductor"):
            yaffle.ok("stop", "--lift")
            (lost,) = wait_for(
                lambda: set(servers()) - set(before.values()), within_s=HEAL_S, every_s=0.2
            )
            # Nova tells the time of each question as that of its last change, and no host ever has it.
            assert cloud.show(lost).task == "scheduling"
            # It is in Nova's list before the message is sent that is to be lost.
            wait_for(lambda: accepted(cloud) > known)
            bus.lose(lab.plan, "conductor")
        found = healed(yaffle)
        after = {name: node["physical_id"] for name, node in nodes(yaffle).items()}
        assert after["web-2"] == before["web-2"]
        assert after["web-1"] not in {before["web-1"], lost}
        assert sorted(servers()) == sorted(after.values())
        told = "".join(yaffle.ok("incident", "show", i["id"], "--json").out for i in found)
        assert "Nova's task scheduling has not moved for more than 6 s" in told, told
