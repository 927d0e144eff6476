"""A host is cut off from its cloud, and is back with its guests well: nothing waits there for them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.functional.cli.support import Server, wait_for
from tests.openstack.nova.rack import switched
from tests.openstack.nova.test_host_lost import LOST, PROFILE, all_healthy
from tests.openstack.nova.test_recreated import WITHIN_S, cluster, frozen, steps
from tests.openstack.nova.world import World


@pytest.fixture
def yaffle(broken_admin_world: World, tmp_path: Path) -> Iterator[Server]:
    """A server of Yaffle's own with an administrator's rights."""
    config = switched(broken_admin_world.cloud, tmp_path)
    server = Server(tmp_path / "state", flags=("--config", str(config)))
    server.start()
    try:
        server.ok("profile", "create", "web", "-", given=PROFILE)
        yield server
    finally:
        assert server.stop(signal.SIGTERM) == 0


@pytest.mark.parametrize(
    "recovery",
    [
        pytest.param({"name": "REBOOT", "params": {"type": "HARD"}, "timeout": 30}, id="reboot"),
        pytest.param({"name": "REBUILD", "timeout": 30}, id="rebuild, with consent"),
    ],
)
def test_a_request_does_not_wait_for_a_host_that_is_cut_off(
    broken_admin_world: World, yaffle: Server, recovery: dict[str, Any]
) -> None:
    world = broken_admin_world
    lab = world.cloud.lab
    (server,) = cluster(
        world, yaffle, size=1, fencing=[], node_force_recreate=True, actions=[recovery]
    ).values()  # fmt: skip

    def refused() -> list[str]:
        return [
            s["detail"] for s in steps(yaffle) if (s["stage"], s["result"]) == ("act", "failed")
        ]

    frozen(world)
    try:
        (why, *_) = wait_for(refused, within_s=WITHIN_S)
    finally:
        lab.thaw(f"nova-compute-{LOST}")
    assert f"its host {LOST} is down, so that Nova would keep the request" in why
    wait_for(lambda: lab.host_states()[LOST] == "up", within_s=WITHIN_S)
    wait_for(lambda: all_healthy(yaffle, 1), within_s=WITHIN_S)
    # What had waited for the host would be carried out by now: something else is, that is asked for now.
    lab.api.call("POST", "compute", f"/servers/{server}/action", {"pause": None})
    wait_for(lambda: world.cloud.show(server).status == "PAUSED", within_s=WITHIN_S)
    path = f"/servers/{server}/os-instance-actions"
    acts = [act["action"] for act in lab.api.get("compute", path)["instanceActions"]]
    assert acts == ["pause", "create"]
