"""People of a real cloud who have not handed Yaffle their password, and what they let it do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import yaml
from lab.openstack import Credentials, Lab
from tests.acceptance.rig import Api, Server
from tests.openstack.registering import service_user
from tests.waiting import wait_for

from yaffle.integrations.secret_box import add_key

PROFILE = {
    "type": "os.nova.server",
    "version": "1.0",
    "properties": {"flavor": "lab.tiny", "image": "lab-image", "networks": "none"},
}
POLICY = {
    "type": "senlin.policy.health",
    "version": "1.3",
    "properties": {
        "detection": {
            "interval": 1, "node_update_timeout": 2, "rise": 1, "fall": 2,
            "detection_modes": [{"type": "NODE_STATUS_POLLING"}],
        },
        "recovery": {
            "actions": [{"name": "START", "timeout": 120}],
            "retry": {"backoff": 1, "max_backoff": 2},
        },
    },
}  # fmt: skip
HEAL_S = 180.0


@dataclass
class Person:
    """A user in a project, with a cluster of one server."""

    who: Credentials
    api: Api = field(init=False)
    policy: str = field(default="")
    cluster: str = field(default="")
    server: str = field(default="")
    """Nova's id of it."""

    @property
    def node(self) -> dict[str, Any]:
        (node,) = self.api.get("nodes")["nodes"]
        return dict(node)

    def begin(self) -> None:
        """Ask for a cluster of one node."""
        name = self.who.project
        body = {"profile": {"name": name, "spec": PROFILE}}
        profile = self.api.post("profiles", body, want=201).json["profile"]["id"]
        body = {"policy": {"name": name, "spec": POLICY}}
        self.policy = self.api.post("policies", body, want=201).json["policy"]["id"]
        body = {"cluster": {"name": name, "profile_id": profile, "desired_capacity": 1}}
        self.cluster = self.api.post("clusters", body).json["cluster"]["id"]

    def watched(self) -> None:
        """Have it watched, once it is there."""
        path = f"clusters/{self.cluster}"
        self.api.until(path, lambda c: c["status"] == "ACTIVE", within_s=HEAL_S)
        body = {"policy_attach": {"policy_id": self.policy, "enabled": True}}
        self.api.post(f"{path}/actions", body)
        self.server = self.node["physical_id"]

    def until(self, health: str) -> None:
        """Wait until the node is of that health."""
        wait_for(lambda: self.node["health"] == health, within_s=HEAL_S, every_s=0.2)

    def healed(self, count: int) -> None:
        """Wait until so many failures of the node are over."""

        def over() -> bool:
            found = self.api.get("/yaffle/v1/incidents")["incidents"]
            return sum(one["state"] == "recovered" for one in found) >= count

        wait_for(over, within_s=HEAL_S, every_s=0.2)

    def why(self) -> str:
        """Return all that is said about the node."""
        return json.dumps(self.api.get(f"/yaffle/v1/nodes/{self.node['id']}/why"))


def asked(who: Credentials, method: str, path: str, body: object = None, token: str = "") -> Any:
    """Ask Keystone something; the answer, whatever it is."""
    headers = {"X-Auth-Token": token} if token else {}
    url = f"{who.auth_url}{path}"
    # Without the certificates of the world, which take longer to load than the answer.
    how = {"timeout": 60, "trust_env": False, "verify": False}
    return httpx.request(method, url, json=body, headers=headers, **how)


def token_of(who: Credentials) -> str:
    """Return a token as a person gets it, with name and password."""
    domain = {"name": "Default"}
    user = {"name": who.user, "domain": domain, "password": who.password}
    identity = {"methods": ["password"], "password": {"user": user}}
    scope = {"project": {"name": who.project, "domain": domain}}

    def issued() -> str:
        body = {"auth": {"identity": identity, "scope": scope}}
        answer = asked(who, "POST", "/auth/tokens", body)
        assert answer.status_code == 201, answer.text
        token = str(answer.headers["X-Subject-Token"])
        # A password that is set revokes all tokens of that second, to come as well as gone.
        known = asked(who, "GET", f"/users/{who.user_id}/projects", token=token)
        return token if known.status_code == 200 else ""

    return str(wait_for(issued, every_s=0.2))


def handed_over(who: Credentials) -> tuple[str, str]:
    """Make an application credential of that user's; return its id and its secret."""
    # Named, for Keystone now and then does not find the roles that this one implies.
    wanted = {"name": "yaffle", "roles": [{"name": "member"}]}
    path = f"/users/{who.user_id}/application_credentials"
    answer = asked(who, "POST", path, {"application_credential": wanted}, token_of(who))
    assert answer.status_code == 201, answer.text
    made = answer.json()["application_credential"]
    return made["id"], made["secret"]


def taken_back(who: Credentials, ident: str) -> None:
    """Delete an application credential, as its user can at any time."""
    path = f"/users/{who.user_id}/application_credentials/{ident}"
    assert asked(who, "DELETE", path, token=token_of(who)).status_code == 204


def trusts_of(who: Credentials) -> list[dict[str, Any]]:
    """Return whom that user trusts."""
    path = f"/OS-TRUST/trusts?trustor_user_id={who.user_id}"
    found: list[dict[str, Any]] = asked(who, "GET", path, token=token_of(who)).json()["trusts"]
    return found


@contextmanager
def nobody(lab: Lab) -> Iterator[Credentials]:
    """A user without any role in any project: who a service can be that acts by leave alone."""
    who = lab.project(roles=())
    try:
        yield who
    finally:
        lab.remove_project(who)


def settings(lab: Lab, service: Credentials, root: Path) -> Path:
    """Write the settings of a Yaffle that is nobody in the cloud."""
    words = yaml.safe_load(service.clouds_yaml.read_text())
    # Without a project: the trust says in which one it acts.
    words["clouds"][service.cloud]["auth"].pop("project_name", None)
    clouds = root / "clouds.yaml"
    clouds.write_text(yaml.safe_dump(words))
    add_key(root / "keys")
    lines = ["[engine]", "poll = 0.2", "[server.keystone]"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in service_user(lab, root).items()]
    lines += ["[credentials]", f'keys_file = "{root / "keys"}"']
    lines += ['[drivers."os.nova.server-1.0"]', f'cloud = "{service.cloud}"']
    lines += [f'clouds_file = "{clouds}"', 'credentials = "projects"']
    path = root / "yaffle.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


@contextmanager
def entered(server: Server, *people: Person) -> Iterator[None]:
    """Let people in, each with a token that they have just got."""
    with ExitStack() as stack:
        for one in people:
            one.api = Api(server.root, headers={"X-Auth-Token": token_of(one.who)})
            stack.callback(one.api.close)
        yield


def acts(lab: Lab, server: str) -> list[tuple[str, str, str]]:
    """Return what somebody did to a server, newest first: (act, user, project)."""
    found = lab.api.get("compute", f"/servers/{server}/os-instance-actions")["instanceActions"]
    # That it was off Nova has found by itself, and done it once more.
    return [(a["action"], a["user_id"], a["project_id"]) for a in found if a["user_id"]]
