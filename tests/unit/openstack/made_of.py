"""A cloud that has all that a server is made of, and a process that asks it what is to come."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from yaffle.drivers.profiles.nova_server.api.nova import Nova
from yaffle.drivers.profiles.nova_server.operations.preflight import foresee
from yaffle.drivers.profiles.nova_server.tracking.operation import ServerOperation
from yaffle.integrations.openstack.client import Answer
from yaffle.integrations.openstack.faults import fault_of
from yaffle.integrations.openstack.sent_requests import SentRequests
from yaffle.integrations.openstack.servers.stuck_tasks import Bounds, Tasks
from yaffle.model.ids import NodeId, OperationId
from yaffle.model.operations import Operation, Prospect, Target

IMAGE = "01c3e056-5dd3-4277-8976-32b076612bcb"
PORT, GROUP = "port-1", "5f2dd97f-1cfb-40f6-a827-688de6a16a3b"
FLAVORS, PORTS, DISK = "/flavors/small", "/v2.0/ports", "/volumes/v-1"
PORT_QUOTA = "/v2.0/quotas/p/details.json"
SPEC: Mapping[str, object] = {
    "flavor": "small",
    "image": IMAGE,
    "key_name": "ops team",
    "availability_zone": "east:host1",
    "networks": [{"network": "private", "fixed_ip": "10.0.0.9"}, {"port": PORT}],
    "block_device_mapping_v2": [{"source_type": "volume", "uuid": "v-1"}],
    "scheduler_hints": {"group": GROUP},
}
FLAVOR = {"vcpus": 2, "ram": 512, "original_name": "small"}
LIMITS = {
    "maxTotalInstances": 3, "totalInstancesUsed": 3,
    "maxTotalCores": 8, "totalCoresUsed": 8,
    "maxTotalRAMSize": -1, "totalRAMUsed": 4096,
    "maxTotalVolumes": 2, "totalVolumesUsed": 2,
    "maxTotalVolumeGigabytes": 20, "totalGigabytesUsed": 20,
}  # fmt: skip


def image(status: str) -> dict[str, Any]:
    return {"id": IMAGE, "name": "debian", "status": status}


def volume(status: str = "in-use", *servers: str, **more: Any) -> dict[str, Any]:
    attached = [{"server_id": one} for one in servers]
    return {"volume": {"id": "v-1", "status": status, "attachments": attached, **more}}


def port(ident: str = PORT, address: str = "10.0.0.7", **more: Any) -> dict[str, Any]:
    known = {"id": ident, "device_id": "old", "network_id": "net"}
    return {**known, "fixed_ips": [{"ip_address": address}], **more}


def server(**more: Any) -> dict[str, Any]:
    known = {"id": "old", "status": "ERROR", "created": "t", "tenant_id": "p", "flavor": FLAVOR}
    known["os-extended-volumes:volumes_attached"] = [{"id": "v-1"}]
    return {"server": {**known, **more}}


@dataclass
class Cloud:
    """A cloud that has all that SPEC names, asked as `Client` asks it."""

    project_id: str = "p"
    asked: list[str] = field(default_factory=list)
    broken: dict[str, Exception] = field(default_factory=dict)
    """By path: what comes instead of an answer."""
    has: dict[str, Any] = field(
        default_factory=lambda: {
            "/servers/old": server(),
            FLAVORS: {"flavor": {"id": "small", **FLAVOR}},
            "/flavors": {"flavors": [{"id": "other", "name": "Small"}]},
            f"/v2/images/{IMAGE}": image("active"),
            "/v2/images": {"images": [{"id": IMAGE, "name": "debian"}]},
            "/v2.0/networks": {"networks": [{"id": "net", "name": "private"}]},
            PORTS: {"ports": [port(), port("port-2", "10.0.0.9")]},
            DISK: volume("in-use", "old"),
            "/os-keypairs/ops%20team": {"keypair": {}},
            f"/os-server-groups/{GROUP}": {"server_group": {}},
            "/os-availability-zone": {
                "availabilityZoneInfo": [
                    {"zoneName": "east", "zoneState": {"available": True}},
                    {"zoneName": "dark", "zoneState": {"available": False}},
                ]
            },
            # Nova's and Cinder's in one, for they have the same path here.
            "/limits": {"limits": {"absolute": LIMITS}},
            PORT_QUOTA: {"quota": {"port": {"limit": 2, "used": 2, "reserved": 0}}},
        }
    )

    storage: str = "http://cinder/v3/p"
    """Where the catalog says that it is."""

    def place(self, service: str) -> str:
        return self.storage if service == "block-storage" else "http://neutron"

    def get(self, service: str, path: str, *, version: str = "", query: Any = None) -> Answer:
        self.asked.append(path)
        if path in self.broken:
            raise self.broken[path]
        if path not in self.has:
            page = b"<h1>404 Not Found</h1> No image found with ID x<br />"
            words = page if service == "image" else b'{"itemNotFound": {"message": "gone"}}'
            raise fault_of(404, words, f"GET {path}", acts=False)
        answer = self.has[path]
        if query and "name" in query:
            # Servers that are asked by name show those of that name alone.
            answer = {k: [i for i in v if i["name"] == query["name"]] for k, v in answer.items()}
        if path == PORTS:
            answer = {"ports": [p for p in answer["ports"] if _is_so(p, query)]}
        return Answer(status=200, body=json.dumps(answer).encode(), request_id="r")


def _is_so(port: Mapping[str, Any], query: Mapping[str, str]) -> bool:
    """Whether Neutron would list that port."""
    told = {**port, "fixed_ips": f"ip_address={port['fixed_ips'][0]['ip_address']}"}
    return query.items() <= told.items()


@dataclass
class Clock:
    at_s: float = 1000.0

    def monotonic_s(self) -> float:
        return self.at_s

    def now_us(self) -> int:
        return int(self.at_s * 1_000_000)


@dataclass
class Asker:
    """One process that asks that cloud again and again."""

    cloud: Cloud = field(default_factory=Cloud)
    clock: Clock = field(default_factory=Clock)
    memory: SentRequests = field(default_factory=SentRequests)

    def job(
        self, kind: str, spec: Mapping[str, object], params: Any, physical_id: str
    ) -> ServerOperation:
        target = Target(
            node_id=NodeId("n"), name="web", physical_id=physical_id, spec=spec,
            profile_type="os.nova.server-1.0",
        )  # fmt: skip
        return ServerOperation(
            op=Operation(kind=kind, target=target, params=params or {}),
            operation_id=OperationId(""), nova=Nova(self.cloud),  # type: ignore[arg-type]
            census=None, memory=self.memory, tasks=Tasks(self.clock, Bounds()),  # type: ignore[arg-type]
            clock=self.clock, facts={},  # type: ignore[arg-type]
        )  # fmt: skip

    def ask(
        self, kind: str = "CREATE", *, params: Any = None, physical_id: str = "old", **spec: Any
    ) -> Prospect:
        return foresee(self.job(kind, {**SPEC, **spec}, params, physical_id))


def without(path: str) -> Callable[[Cloud], object]:
    return lambda cloud: cloud.has.pop(path)


def with_(path: str, answer: Any) -> Callable[[Cloud], object]:
    return lambda cloud: cloud.has.update({path: answer})
