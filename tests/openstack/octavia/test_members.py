"""LB_STATUS_POLLING asks a real Octavia: API, database and Keystone; only the balancer is nobody's.

Its packages take a minute to install and its tables half a minute to make, so that this is a test
of its own: `make test-octavia`. The suite has the answers that a real one gave, as recorded.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab.openstack import Lab, octavia
from tests.contract.load_balancer.test_haproxy import mode, node
from tests.openstack.cloud import Cloud

from yaffle.drivers.detectors.load_balancer import LoadBalancerDetector
from yaffle.engine.runtime.clock import SystemClock
from yaffle.ports import DriverContext

pytestmark = [
    pytest.mark.skipif(not os.environ.get("YAFFLE_OCTAVIA"), reason="make test-octavia asks it"),
    pytest.mark.timeout(900),
]
NODES = [node("web-0"), node("a", node_ip="10.0.0.2"), node("web-2"), node("stranger")]


@pytest.fixture
def balancers(lab: Lab) -> Iterator[Lab]:
    """The lab, with Octavia in it."""
    services = octavia.OCTAVIA.start(lab.plan, lab.processes, lab.api)
    yield lab
    lab.processes.stop(services)


class Pool:
    """A pool of one load balancer, both as a provider would have made them."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        vip = {"vip_subnet_id": str(uuid.uuid4()), "vip_address": "192.0.2.5"}
        wanted = {**vip, "name": "lb", "project_id": cloud.credentials.project_id}
        self._balancer = self._post("loadbalancer", "loadbalancers", wanted)
        self.tell()
        wanted = {"protocol": "HTTP", "lb_algorithm": "ROUND_ROBIN"}
        wanted |= {"name": "web", "loadbalancer_id": self._balancer}
        self.id = self._post("pool", "pools", wanted)
        self.tell(pools=[{"id": self.id, "provisioning_status": "ACTIVE"}])

    def member(self, number: int, **more: object) -> str:
        wanted = {"name": f"web-{number}", "address": f"10.0.0.{number + 1}", "protocol_port": 80}
        ident = self._post("member", f"pools/{self.id}/members", {**wanted, **more})
        self.tell(
            pools=[{"id": self.id, "provisioning_status": "ACTIVE"}],
            members=[{"id": ident, "provisioning_status": "ACTIVE"}],
        )
        return ident

    def tell(self, **objects: Any) -> None:
        """Say how things are; the balancer itself is active, or it would take no changes."""
        active = {"id": self._balancer, "provisioning_status": "ACTIVE"}
        octavia.tell(self._cloud.lab.plan, loadbalancers=[active], **objects)

    def _post(self, what: str, path: str, wanted: dict[str, object]) -> str:
        made = self._cloud.api.call("POST", "balancing", f"/v2/lbaas/{path}", {what: wanted})
        return str(made[what]["id"])


def test_what_octavia_says_of_its_members_counts(
    balancers: Lab, cloud: Cloud, tmp_path: Path
) -> None:
    pool = Pool(cloud)
    members = [pool.member(0), pool.member(1), pool.member(2, admin_state_up=False)]
    settings = {"cloud": cloud.name, "clouds_file": str(cloud.clouds_yaml), "timeout": 20}

    def made() -> LoadBalancerDetector:
        balancers = {"lb": {"type": "octavia", **settings}}
        return LoadBalancerDetector(
            DriverContext(
                clock=SystemClock(), state_dir=tmp_path, settings={"balancers": balancers}
            )
        )

    detector = made()

    def codes(name: str) -> list[str]:
        found = asyncio.run(detector.check(NODES, mode(name), deadline_s=25))
        return [one.code for one in found]

    assert codes("web") == ["LB-UNCHECKED", "LB-UNCHECKED", "LB-MAINT", "LB-NO-MEMBER"]
    for status, code in (("ONLINE", "LB-UP"), ("ERROR", "LB-FAILED"), ("DRAINING", "LB-DRAIN")):
        pool.tell(members=[{"id": members[0], "operating_status": status}])
        assert codes(pool.id)[0] == code
    pool.tell(members=[{"id": members[1], "operating_status": "ERROR"}])
    assert codes("web")[1] == "LB-FAILED"
    pool.tell(members=[{"id": members[1], "provisioning_status": "ERROR"}])
    assert codes("web")[1] == "LB-UNCHECKED"
    assert set(codes("nope")) == {"LB-NO-POOL"}
    assert set(codes(str(uuid.uuid4()))) == {"LB-NO-POOL"}
    # Where no pool is named: the only one that has a node's address.
    assert codes("") == codes("web")
    # Another one of the name: which is meant cannot be told, and the id still can.
    other = Pool(cloud)
    detector = made()
    assert set(codes("web")) == {"LB-NO-POOL"}
    assert codes(pool.id)[0] == "LB-DRAIN"
    # The other one has no members yet; once it has the node's address, nobody can tell.
    assert codes("") == codes(pool.id)
    other.member(1)
    detector = made()
    assert set(codes("")) == {"LB-AMBIGUOUS"}
