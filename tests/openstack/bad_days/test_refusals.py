"""Three recoveries that the cloud refuses, and a locked server: told, and healed once that is over.

Where the refusal can be foreseen nothing is given up: the old server is there until the new one may be.
"""

from __future__ import annotations

import secrets
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.functional.cli.support import Server, wait_for
from tests.openstack.bad_days.record import acts, lives
from tests.openstack.cloud import Cloud
from tests.waiting import wait_until

PROFILE = """
type: os.nova.server
version: "1.0"
properties: {{flavor: {flavor}, image: {image}, networks: none}}
"""
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
      - {name: START, timeout: 120}
      - {name: RECREATE, timeout: 120}
    limits: {max_unhealthy: 100%}
    retry: {attempts: 30, backoff: 4, max_backoff: 6}
"""
WITHIN_S = 240.0
UNLOCK = "openstack server unlock"
FORESEEN = ("image",)
"""What can be known before the old server is given up."""


@dataclass(slots=True, kw_only=True)
class Ground:
    """What the clusters are made of, each with a flavor or an image of its own."""

    cloud: Cloud
    image: str
    tight: str
    wide: str
    image_id: str = ""
    servers: dict[str, str] = field(default_factory=dict)

    def reasons(self) -> dict[str, str]:
        """Return the words for it that a person has to be told."""
        return {
            "image": self.image,
            "nowhere": "No valid host",
            "quota": "Quota exceeded",
        }

    def profiles(self) -> dict[str, str]:
        """Return a profile for each cluster."""
        plain = {"flavor": "lab.tiny", "image": "lab-image"}
        return {
            "image": PROFILE.format(**plain | {"image": self.image}),
            "nowhere": PROFILE.format(**plain | {"flavor": self.tight}),
            "quota": PROFILE.format(**plain | {"flavor": self.wide}),
            "locked": PROFILE.format(**plain),
        }

    def upload(self) -> None:
        """Have an image of that name."""
        api = self.cloud.api
        words = {"name": self.image, "disk_format": "raw", "container_format": "bare"}
        self.image_id = str(api.call("POST", "image", "/images", words)["id"])
        api.call("PUT", "image", f"/images/{self.image_id}/file", b"an image")

    def _quota(self, cores: int) -> None:
        path = f"/os-quota-sets/{self.cloud.credentials.project_id}"
        self.cloud.lab.api.call(
            "PUT", "compute", path, {"quota_set": {"cores": cores, "force": True}}
        )

    def _act(self, cluster: str, action: str) -> None:
        path = f"/servers/{self.servers[cluster]}/action"
        self.cloud.lab.api.call("POST", "compute", path, {action: None})

    def refuses(self) -> None:
        """Take away what each of them needs, then the servers, or what can be had of them."""
        admin, cloud = self.cloud.lab.api, self.cloud
        cloud.api.call("DELETE", "image", f"/images/{self.image_id}")
        never = {"extra_specs": {"resources:VCPU": "100000"}}
        admin.call("POST", "compute", f"/flavors/{self.tight}/os-extra_specs", never)
        self._quota(4)
        self._act("locked", "lock")
        # That no host is left for it is known only when it has been tried. And a quota that refuses
        # one whose server is still there has no room for that either. Until that one is gone the
        # quota has no room for any of them, and they would be told so: so it goes first.
        for cluster in ("quota", "nowhere"):
            self._act(cluster, "forceDelete")
            assert admin.gone("compute", f"/servers/{self.servers[cluster]}", WITHIN_S)
        # Nova does not start what it believes to run.
        for cluster in (*FORESEEN, "locked"):
            cloud.guest(self.servers[cluster]).vanish()

    def allows(self) -> None:
        """Give all of it back."""
        self.upload()
        path = f"/flavors/{self.tight}/os-extra_specs/resources:VCPU"
        self.cloud.lab.api.call("DELETE", "compute", path)
        self._quota(100)
        self._act("locked", "unlock")


def _flavor(cloud: Cloud, *, vcpus: int) -> str:
    """Make a flavor that nobody else sees: what the lab has of its own is counted meanwhile."""
    api, name = cloud.lab.api, f"f-{secrets.token_hex(4)}"
    words = {
        "name": name,
        "vcpus": vcpus,
        "ram": 64,
        "disk": 1,
        "os-flavor-access:is_public": False,
    }
    ident = str(api.call("POST", "compute", "/flavors", {"flavor": words})["flavor"]["id"])
    access = {"addTenantAccess": {"tenant": cloud.credentials.project_id}}
    api.call("POST", "compute", f"/flavors/{ident}/action", access)
    return ident


@pytest.fixture
def ground(cloud: Cloud) -> Iterator[Ground]:
    """Flavors and an image that nobody else uses."""
    tight, wide = _flavor(cloud, vcpus=1), _flavor(cloud, vcpus=4)
    found = Ground(cloud=cloud, image=f"i-{secrets.token_hex(4)}", tight=tight, wide=wide)
    found.upload()
    yield found
    for flavor in (tight, wide):
        cloud.lab.api.call("DELETE", "compute", f"/flavors/{flavor}")


@pytest.fixture
def yaffle(ground: Ground, tmp_path: Path) -> Iterator[Server]:
    """A Yaffle with a cluster of one server for each reason."""
    cloud = ground.cloud
    config = tmp_path / "yaffle.toml"
    config.write_text(
        f'[drivers."os.nova.server-1.0"]\ncloud = "{cloud.name}"\n'
        f'clouds_file = "{cloud.clouds_yaml}"\n'
    )
    server = Server(tmp_path / "state", flags=("--config", str(config)))
    server.start()
    try:
        server.ok("policy", "create", "care", "-", given=POLICY)
        for name, profile in ground.profiles().items():
            server.ok("profile", "create", name, "-", given=profile)
            server.ok("cluster", "create", name, "--profile", name, "--policy", "care", "--no-wait")
        wait_for(lambda: well(server) == 4, within_s=WITHIN_S, every_s=0.3)
        yield server
    finally:
        assert server.stop(signal.SIGTERM) == 0


def nodes(server: Server) -> dict[str, dict[str, Any]]:
    found = server.ok("node", "list", "--json").json["nodes"]
    return {n["name"].removesuffix("-1"): n for n in found}


def incidents(server: Server) -> dict[str, dict[str, Any]]:
    found = server.ok("incident", "list", "--json").json["incidents"]
    return {i["node"].removesuffix("-1"): i for i in found}


def well(server: Server) -> int:
    return sum(n["health"] == "healthy" for n in nodes(server).values())


def renewed(ground: Ground, server: Server) -> bool:
    """Whether each node is well, and has another server than before."""
    now = {node["physical_id"] for node in nodes(server).values()}
    return well(server) == 4 and not now & set(ground.servers.values())


def tries(server: Server) -> dict[str, list[str]]:
    """Return what the failed recoveries of each node say."""
    names = {node["id"]: cluster for cluster, node in nodes(server).items()}
    told: dict[str, list[str]] = {cluster: [] for cluster in names.values()}
    for action in server.ok("action", "list", "--json", "--limit", "200").json["actions"]:
        if (action["action"], action["status"]) == ("NODE_RECOVER", "FAILED"):
            told[names[action["target"]]].append(action["status_reason"])
    return told


def last_attempt(server: Server, cluster: str) -> str:
    """Return what a person who asks why is told of the last attempt."""
    said = server.cli("why", f"{cluster}-1").out
    return next((line for line in said.splitlines() if line.startswith("The last attempt")), said)


def told_of(node: dict[str, Any], reason: str) -> bool:
    """Whether the node says so, or is just being tried again."""
    return reason in node["status_reason"] or node["status"] == "RECOVERING"


def test_what_the_cloud_refuses_is_told_and_healed_once_it_allows_it(
    ground: Ground, yaffle: Server
) -> None:
    ground.servers = {name: node["physical_id"] for name, node in nodes(yaffle).items()}
    project = ground.cloud.credentials.project_id
    ground.refuses()
    in_vain = lambda: all(tries(yaffle)[cluster] for cluster in ground.reasons())  # noqa: E731
    wait_for(in_vain, within_s=WITHIN_S, every_s=0.5)
    assert all(i["open"] for i in incidents(yaffle).values())
    tried = tries(yaffle)
    for cluster, reason in ground.reasons().items():
        # The true reason, wherever a person may look first; and what is being tried goes on.
        wait_until(lambda c=cluster: last_attempt(yaffle, c), lambda said, r=reason: r in said)
        assert all(reason in told for told in tried[cluster]), tried
        node = wait_until(lambda c=cluster: nodes(yaffle)[c], lambda n, r=reason: told_of(n, r))
        assert node["health"] != "healthy"
    for cluster in FORESEEN:
        assert all("nothing was given up for it" in told for told in tried[cluster]), tried
        assert not {"delete", "forceDelete"} & set(acts(ground.cloud, ground.servers[cluster]))
    # What somebody has locked is no failure that anybody tries his hand at.
    wait_until(lambda: yaffle.cli("why", "locked-1").out, lambda said: UNLOCK in said)
    assert not tries(yaffle)["locked"]
    assert not {"delete", "forceDelete"} & set(acts(ground.cloud, ground.servers["locked"]))
    # What could not be ended was not replaced, and nothing is left of what could not be made.
    left = [s for several in lives(ground.cloud, {}).values() for s in several if s.ended is None]
    assert len({s.node for s in left}) == len(left)
    kept = {ground.servers[cluster] for cluster in (*FORESEEN, "locked")}
    assert kept <= {s.id for s in left}
    assert not [s for s in left if s.status == "ACTIVE" and s.id not in kept]

    ground.allows()
    wait_for(lambda: renewed(ground, yaffle), within_s=WITHIN_S, every_s=0.5)
    wait_for(lambda: not any(i["open"] for i in incidents(yaffle).values()))
    now = {node["physical_id"] for node in nodes(yaffle).values()}
    assert set(ground.cloud.lab.servers_of(project)) == now
    assert not now & set(ground.servers.values())
    assert {i["state"] for i in incidents(yaffle).values()} == {"recovered"}
