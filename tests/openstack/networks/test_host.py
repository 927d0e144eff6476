"""A host dies under a server with a port and a volume: it is switched off, and the server moved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.rig import Api, serving
from tests.openstack.networks.test_healing import HEAL_S, story, watched
from tests.openstack.networks.things import ASKED_FOR, Things, addresses, disk
from tests.openstack.nova.rack import care, switched
from tests.openstack.nova.world import World
from tests.waiting import wait_for

pytestmark = ASKED_FOR


@pytest.fixture
def api(broken_admin_world: World, tmp_path: Path) -> Iterator[Api]:
    """Who asks a server of Yaffle's own, which has an administrator's rights and a power switch."""
    config = switched(broken_admin_world.cloud, tmp_path)
    with serving(tmp_path, "--config", str(config), local_process=False) as server:
        found = Api(server.root)
        yield found
        found.close()


def test_it_is_moved_with_all_that_it_had_once_its_host_is_off(
    broken_admin_world: World, api: Api, tmp_path: Path
) -> None:
    world, things = broken_admin_world, Things(cloud=broken_admin_world.cloud)
    cloud, network = world.cloud, things.network()
    port, data = things.port(network), things.volume()
    wanted = [{"port": port}, {"network": network}]
    spec: dict[str, Any] = {"image": "lab-image", "block_device_mapping_v2": [disk(data)]}
    node = watched(api, policy=care(1, 1), networks=wanted, **spec)
    server = node["physical_id"]
    source = cloud.show(server).host
    before = {one["id"]: addresses(one) for one in things.ports()}
    assert len(before) == 2
    cloud.lab.kill_host(source)

    def recovered() -> list[Any] | None:
        found = api.get("/yaffle/v1/incidents")["incidents"]
        found = [one for one in found if one["cause"] != "host-quarantined"]
        return found if found and not any(one["open"] for one in found) else None

    ended = wait_for(recovered, within_s=HEAL_S, every_s=0.5)
    told = story(api)
    assert {one["state"] for one in ended} == {"recovered"}, told
    assert (tmp_path / "power").read_text() == "off"
    there = cloud.show(server)
    assert (there.status, there.host != source) == ("ACTIVE", True), told
    assert {one["id"]: addresses(one) for one in things.ports()} == before
    for one in things.ports():
        assert (one["device_id"], one["binding:host_id"]) == (server, there.host)
    (attached,) = things.volume_of(data)["attachments"]
    assert (attached["server_id"], attached["host_name"]) == (server, there.host)
    (only,) = api.get("nodes")["nodes"]
    assert only["physical_id"] == server
