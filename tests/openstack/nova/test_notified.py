"""A monitor tells of a failed host over Masakari's API: its servers run on the host that was in reserve.

The sender is trusted here, as one that has read the host's power. Nova's own silence is still needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.functional.cli.support import Server, wait_for
from tests.openstack.nova.rack import care
from tests.openstack.nova.test_fenced_by_pacemaker import on_two_hosts, said
from tests.openstack.nova.test_host_lost import (
    LEFT,
    LOST,
    PROFILE,
    WITHIN_S,
    all_healthy,
    closed,
    incidents_of,
    nodes,
)
from tests.openstack.nova.world import World

pytestmark = pytest.mark.timeout(600)

SETTINGS = """
[drivers."os.nova.server-1.0"]
cloud = "{cloud}"
clouds_file = "{clouds}"
full_sweep = 20

[hosts]
poll = 1

[host_monitors.others]
type = "notified"
cloud = "{cloud}"
senders = ["local user"]
"""


@pytest.fixture
def hosts(broken_admin_world: World) -> Iterator[World]:
    """Hosts that may be frozen."""
    yield broken_admin_world
    broken_admin_world.cloud.lab.kill_host(LOST)


class Teller:
    """Speaks Masakari's API, as its monitors do."""

    def __init__(self, server: Server) -> None:
        card = json.loads((server.state_dir / "server.json").read_text())
        self._url = f"{card['url']}/instance-ha/v1"

    def ask(self, method: str, path: str, body: object = None, *, want: int) -> Any:
        headers = {"OpenStack-API-Version": "instance-ha 1.3"}
        answer = httpx.request(method, self._url + path, json=body, headers=headers, timeout=60)
        assert answer.status_code == want, answer.text
        return answer.json() if answer.content else None

    def register(self, *names: str, reserved: str) -> str:
        """Make a segment of these hosts, one of which is kept in reserve."""
        segment = {"name": "all", "recovery_method": "reserved_host", "service_type": "COMPUTE"}
        made = self.ask("POST", "/segments", {"segment": segment}, want=201)["segment"]["uuid"]
        for name in names:
            host = {"name": name, "type": "COMPUTE", "control_attributes": "SSH"}
            host["reserved"] = str(name == reserved)
            self.ask("POST", f"/segments/{made}/hosts", {"host": host}, want=201)
        return str(made)

    def stopped(self, host: str) -> str:
        told = {
            "type": "COMPUTE_HOST",
            "hostname": host,
            "generated_time": datetime.now(UTC).replace(tzinfo=None).isoformat(),
            "payload": {
                "event": "STOPPED",
                "host_status": "NORMAL",
                "cluster_status": "OFFLINE",
            },
        }
        made = self.ask("POST", "/notifications", {"notification": told}, want=202)
        return str(made["notification"]["notification_uuid"])

    def shown(self, ident: str) -> Any:
        return self.ask("GET", f"/notifications/{ident}", want=200)["notification"]


def reserve(teller: Teller, segment: str) -> list[str]:
    hosts = teller.ask("GET", f"/segments/{segment}/hosts?reserved=true", want=200)["hosts"]
    return [str(host["name"]) for host in hosts]


def test_servers_of_a_host_that_a_trusted_monitor_tells_of_run_elsewhere(
    hosts: World, tmp_path: Path
) -> None:
    cloud, config = hosts.cloud, tmp_path / "yaffle.toml"
    config.write_text(SETTINGS.format(cloud=cloud.name, clouds=cloud.clouds_yaml))
    server = Server(tmp_path / "state", flags=("--config", str(config)))
    server.start()
    try:
        teller = Teller(server)
        segment = teller.register(LOST, LEFT, reserved=LEFT)
        ghost = {"name": "ghost", "type": "COMPUTE", "control_attributes": "SSH"}
        refused = teller.ask("POST", f"/segments/{segment}/hosts", {"host": ghost}, want=400)
        message = "Compute service with name ghost could not be found."
        assert refused == {"badRequest": {"code": 400, "message": message}}

        server.ok("profile", "create", "web", "-", given=PROFILE)
        server.ok("policy", "create", "care", "-", given=json.dumps(care("60%", 2)))
        on_two_hosts(hosts, server)
        before = {n["physical_id"]: cloud.show(n["physical_id"]).host for n in nodes(server)}
        (moves,) = (ident for ident, host in before.items() if host == LOST)

        # In reserve: Nova places nothing there until it is needed.
        closed(cloud, LEFT, to_new=True)
        # Nova's agent is away, and that proves nothing: the server may run there.
        cloud.lab.freeze(f"nova-compute-{LOST}")
        wait_for(lambda: incidents_of(server), within_s=WITHIN_S)
        wait_for(lambda: said(server, "no device"), within_s=60)
        assert cloud.show(moves).host == LOST

        ident = teller.stopped(LOST)
        wait_for(lambda: all_healthy(server, 2), within_s=WITHIN_S)
        assert (cloud.show(moves).status, cloud.show(moves).host) == ("ACTIVE", LEFT)
        wait_for(lambda: teller.shown(ident)["status"] == "finished", within_s=60)
        assert not reserve(teller, segment)
        (move,) = teller.ask("GET", f"/notifications/{ident}/vmoves", want=200)["vmoves"]
        assert (move["instance_uuid"], move["source_host"]) == (moves, LOST)
        assert (move["dest_host"], move["status"]) == (LEFT, "succeeded")
        assert teller.shown(ident)["recovery_workflow_details"][0]["state"] == "SUCCESS"
        moved = next(i for i in incidents_of(server) if i["node_id"])
        shown = server.ok("incident", "show", moved["id"], "--json").out
        assert "notified others" in shown, "the proof says whose it is"
        assert "local user has notified" in shown
        listed = server.ok("host", "notifications", "--host", LOST)
        assert "of its nodes 1 succeeded" in listed.out
        assert "local user has notified" in server.ok("host", "why", LOST).out
    finally:
        assert server.stop() == 0
