"""Servers with ports and volumes, healed by a real `yaffle serve`; judged by Neutron and Cinder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.rig import Api, Server, serving
from tests.openstack.networks.things import ASKED_FOR, Things, addresses, disk, root
from tests.openstack.nova.world import World
from tests.waiting import wait_for

pytestmark = ASKED_FOR
HEAL_S = 240.0
POLICY: dict[str, Any] = {
    "type": "senlin.policy.health",
    "version": "1.3",
    "properties": {
        "detection": {
            "interval": 1, "node_update_timeout": 2, "rise": 1, "fall": 2,
            "detection_modes": [{"type": "NODE_STATUS_POLLING"}],
        },
        "recovery": {
            "fencing": ["COMPUTE"],
            "actions": [{"name": "RECREATE", "timeout": 120}],
            "retry": {"attempts": 5, "backoff": 1, "max_backoff": 2},
        },
    },
}  # fmt: skip


@pytest.fixture
def yaffle(world: World, tmp_path: Path) -> Iterator[Server]:
    """A server of Yaffle's own, which acts as the project's user."""
    lines = ["[engine]", "poll = 0.2", '[drivers."os.nova.server-1.0"]']
    lines += [f'cloud = "{world.cloud.name}"', f'clouds_file = "{world.cloud.clouds_yaml}"']
    config = tmp_path / "yaffle.toml"
    config.write_text("\n".join(lines) + "\n")
    with serving(tmp_path, "--config", str(config), local_process=False) as server:
        yield server


@pytest.fixture
def api(yaffle: Server) -> Iterator[Api]:
    """Who asks it."""
    found = Api(yaffle.root)
    yield found
    found.close()


def watched(api: Api, policy: dict[str, Any] = POLICY, **spec: Any) -> dict[str, Any]:
    """Make a cluster of one node, which is made anew when it fails, or as is said; return the node."""
    given = {"flavor": "lab.tiny", **spec}
    profile = {"type": "os.nova.server", "version": "1.0", "properties": given}
    body: Any = {"profile": {"name": "web", "spec": profile}}
    ident = api.post("profiles", body, want=201).json["profile"]["id"]
    care = api.post("policies", {"policy": {"name": "care", "spec": policy}}, want=201).json
    body = {"cluster": {"name": "web", "profile_id": ident, "desired_capacity": 1}}
    cluster = api.post("clusters", body).json["cluster"]["id"]
    api.until(f"clusters/{cluster}", lambda c: c["status"] == "ACTIVE", within_s=HEAL_S)
    body = {"policy_attach": {"policy_id": care["policy"]["id"], "enabled": True}}
    api.post(f"clusters/{cluster}/actions", body)
    return healthy(api)


def healthy(api: Api, other_than: str = "") -> dict[str, Any]:
    """Wait until the node is well, with another server than that one; return it."""

    def node() -> Any:
        (found,) = api.get("nodes")["nodes"]
        well = found["health"] == "healthy" and found["physical_id"] != other_than
        return found if well else None

    return dict(wait_for(node, within_s=HEAL_S, every_s=0.3))


def node_ip(api: Api, node: dict[str, Any]) -> str:
    """Return the address that is stored of a node."""
    return str(api.get(f"/yaffle/v1/nodes/{node['id']}")["node"]["attributes"]["node_ip"])


def story(api: Api) -> str:
    """Return all that is said of the incidents."""
    found = api.get("/yaffle/v1/incidents")["incidents"]
    return json.dumps([api.get(f"/yaffle/v1/incidents/{one['id']}") for one in found])


def test_a_server_is_made_anew_with_all_that_it_had(world: World, things: Things, api: Api) -> None:
    network = things.network()
    port, data = things.port(network), things.volume()
    mac, fixed = things.port_of(port)["mac_address"], things.port_of(port)["fixed_ips"]
    wanted = [{"port": port}, {"network": "private", "fixed_ip": "10.7.0.50"}, {"network": network}]
    devices = [root(world.cloud.image()), disk(data)]
    node = watched(api, networks=wanted, block_device_mapping_v2=devices)
    server = node["physical_id"]
    first = {one["id"] for one in things.ports()}
    (boot,) = (one["id"] for one in things.volumes() if one["id"] != data)
    world.cloud.guest(server).vanish()
    new = healthy(api, other_than=server)["physical_id"]
    told = story(api)

    kept = things.port_of(port)
    assert (kept["device_id"], kept["mac_address"], kept["fixed_ips"]) == (new, mac, fixed), told
    ports = things.ports()
    assert {one["device_id"] for one in ports} == {new}
    assert len(ports) == 3
    assert ["10.7.0.50"] in [addresses(one) for one in ports]
    assert {one["id"] for one in ports} & first == {port}, "what Nova has made is made anew"
    assert things.users_of(data) == [new]
    volumes = {one["id"]: one["status"] for one in things.volumes()}
    assert boot not in volumes
    assert list(volumes.values()) == ["in-use", "in-use"]
    assert world.cloud.lab.servers_of(world.cloud.credentials.project_id) == [new]


def test_a_server_whose_volume_is_broken_is_kept_until_it_is_mended(
    world: World, things: Things, api: Api
) -> None:
    things.network()
    volume = things.volume("root", image=world.cloud.image())
    node = watched(api, networks="auto", block_device_mapping_v2=[disk(volume, boot=True)])
    server = node["physical_id"]
    (its,) = things.ports()
    assert node_ip(api, node) == addresses(its)[0]
    things.reset(volume, "error")
    world.cloud.guest(server).vanish()
    wait_for(lambda: f"volume {volume} is error: have it mended" in story(api), within_s=HEAL_S)
    assert world.cloud.lab.servers_of(world.cloud.credentials.project_id) == [server]
    assert things.users_of(volume) == [server]
    things.reset(volume, "in-use")
    node = healthy(api, other_than=server)
    new = node["physical_id"]
    assert things.users_of(volume) == [new]
    (its,) = things.ports()
    assert (its["device_id"], addresses(its)[0]) == (new, node_ip(api, node))
    (only,) = things.volumes()
    assert only["id"] == volume
