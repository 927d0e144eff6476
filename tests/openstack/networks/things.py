"""Networks, ports and volumes of one project, made by its user; told by Neutron and Cinder themselves."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Final

import pytest
from lab.openstack.waiting import until
from tests.openstack.cloud import Cloud

ASKED_FOR: Final = [
    pytest.mark.skipif(not os.environ.get("YAFFLE_NETWORKS"), reason="make test-networks asks it"),
    pytest.mark.timeout(900),
]
"""Their packages take two minutes to install: these are tests of their own."""
READY_S: Final = 180.0
CIDR: Final = "10.7.0.0/24"


@dataclass(slots=True, kw_only=True)
class Things:
    """One project's."""

    cloud: Cloud

    # --- Neutron ------------------------------------------------------------------------------------

    def network(self, name: str = "private", cidr: str = CIDR) -> str:
        """Make a network with a subnet."""
        made = self.cloud.api.call("POST", "network", "/networks", {"network": {"name": name}})
        ident = str(made["network"]["id"])
        subnet = {"network_id": ident, "ip_version": 4, "cidr": cidr, "gateway_ip": None}
        self.cloud.api.call("POST", "network", "/subnets", {"subnet": subnet})
        return ident

    def port(self, network: str, **more: Any) -> str:
        """Make a port that is nobody's yet."""
        wanted = {"network_id": network, **more}
        made = self.cloud.api.call("POST", "network", "/ports", {"port": wanted})
        return str(made["port"]["id"])

    def ports(self, **which: str) -> list[dict[str, Any]]:
        """Return the project's ports, as an administrator sees them."""
        which = {"project_id": self.cloud.credentials.project_id, **which}
        query = "&".join(f"{key}={value}" for key, value in which.items())
        found: list[dict[str, Any]] = self.cloud.lab.api.get("network", f"/ports?{query}")["ports"]
        return found

    def port_of(self, ident: str) -> dict[str, Any]:
        """Return one port."""
        return dict(self.cloud.lab.api.get("network", f"/ports/{ident}")["port"])

    def quota(self, **limits: int) -> None:
        """Let the project have so many of something of Neutron's."""
        path = f"/quotas/{self.cloud.credentials.project_id}"
        self.cloud.lab.api.call("PUT", "network", path, {"quota": limits})

    def boot(self) -> dict[str, Any]:
        """Boot from the host's own disk, which is to be said where there are other disks."""
        return {
            "boot_index": 0, "source_type": "image", "destination_type": "local",
            "uuid": self.cloud.image(), "delete_on_termination": True,
        }  # fmt: skip

    # --- Cinder -------------------------------------------------------------------------------------

    def volume(self, name: str = "data", image: str = "") -> str:
        """Make a volume of a gigabyte, from an image if one is named."""
        wanted = {"name": name, "size": 1, **({"imageRef": image} if image else {})}
        made = self.cloud.api.call("POST", "volume", "/volumes", {"volume": wanted})
        ident = str(made["volume"]["id"])
        self.until(ident, "available")
        return ident

    def until(self, volume: str, status: str) -> None:
        """Wait until Cinder calls a volume so."""
        seen: list[str] = []

        def true() -> bool:
            seen.append(str(self.volume_of(volume)["status"]))
            return seen[-1] == status

        until(f"volume {volume} is {status}", true, READY_S, poll_s=0.2)

    def volume_of(self, ident: str) -> dict[str, Any]:
        """Return one volume."""
        return dict(self.cloud.lab.api.get("volume", f"/volumes/{ident}")["volume"])

    def volumes(self) -> list[dict[str, Any]]:
        """Return the project's volumes."""
        mine = f"all_tenants=1&project_id={self.cloud.credentials.project_id}"
        found: list[dict[str, Any]] = self.cloud.lab.api.get("volume", f"/volumes/detail?{mine}")[
            "volumes"
        ]
        return found

    def gone(self, volume: str) -> None:
        """Wait until Cinder knows a volume no more."""
        assert self.cloud.lab.api.gone("volume", f"/volumes/{volume}", READY_S)

    def users_of(self, volume: str) -> list[str]:
        """Return the servers that Cinder believes a volume to be attached to."""
        return [one["server_id"] for one in self.volume_of(volume)["attachments"]]

    def room(self, **limits: int) -> None:
        """Let the project have so many of something of Cinder's."""
        project = self.cloud.credentials.project_id
        self.cloud.lab.api.call("PUT", "volume", f"/os-quota-sets/{project}", {"quota_set": limits})

    def reset(self, volume: str, status: str) -> None:
        """Have Cinder believe something of a volume."""
        body = {"os-reset_status": {"status": status}}
        self.cloud.lab.api.call("POST", "volume", f"/volumes/{volume}/action", body)


def addresses(port: dict[str, Any]) -> list[str]:
    """Return the addresses of a port."""
    return [fixed["ip_address"] for fixed in port["fixed_ips"]]


def root(image: str) -> dict[str, Any]:
    """Boot from a volume that is made from an image, and goes with the server."""
    return {
        "boot_index": 0, "source_type": "image", "destination_type": "volume", "uuid": image,
        "volume_size": 1, "delete_on_termination": True,
    }  # fmt: skip


def disk(volume: str, *, boot: bool = False) -> dict[str, Any]:
    """Have a volume that outlives the server."""
    return {
        "boot_index": 0 if boot else -1, "source_type": "volume", "destination_type": "volume",
        "uuid": volume, "delete_on_termination": False,
    }  # fmt: skip
