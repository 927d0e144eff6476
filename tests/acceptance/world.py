"""What tests put into the server: profiles quick and slow, clusters, nodes, policies; and the broom."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.acceptance.rig import Answer, Api, Server, action_of, fresh
from tests.waiting import wait_for

KIND: Final = "yaffle.local.process"
QUICK: Final = {"command": ["sleep", "100000"], "stop_timeout": 20}
STUBBORN: Final = (
    "trap 'while ! test -e {}; do sleep 0.1; done; exit 0' TERM;"
    " while :; do sleep 100000 & wait; done"
)
"""Does not end before a file is there: an operation that ends it holds its locks until then."""
BROKEN: Final = {"command": ["/nonexistent/program"], "stop_timeout": 1}

HEALTH: Final = {
    "detection": {
        "interval": 3600,
        "detection_modes": [{"type": "NODE_STATUS_POLLING"}],
        "node_update_timeout": 300,
    },
    "recovery": {"actions": [{"name": "RECREATE"}]},
}
SPECS: Final[dict[str, dict[str, Any]]] = {
    "senlin.policy.health-1.0": {
        "detection": {"type": "NODE_STATUS_POLLING", "options": {"interval": 3600}},
        "recovery": {"actions": [{"name": "RECREATE"}]},
    },
    "senlin.policy.health-1.1": HEALTH,
    "senlin.policy.health-1.2": HEALTH,
    "senlin.policy.deletion-1.0": {
        "criteria": "OLDEST_FIRST",
        "destroy_after_deletion": True,
        "grace_period": 0,
        "reduce_desired_capacity": True,
    },
    "senlin.policy.deletion-1.1": {"criteria": "YOUNGEST_FIRST"},
    "senlin.policy.scaling-1.0": {
        "event": "CLUSTER_SCALE_OUT",
        "adjustment": {"type": "CHANGE_IN_CAPACITY", "number": 1, "cooldown": 0},
    },
    "senlin.policy.batch-1.0": {"min_in_service": 1, "max_batch_size": 1, "pause_time": 0},
}


def spec_of(kind: str, properties: object = None) -> dict[str, Any]:
    """Return the spec of `name-version`, by default with properties that are good."""
    name, _, version = kind.rpartition("-")
    return {
        "type": name,
        "version": version,
        "properties": SPECS[kind] if properties is None else properties,
    }


@dataclass
class World:
    """Makes objects through the API, remembers them, and takes them away again."""

    api: Api
    server: Server
    made: dict[str, list[str]] = field(default_factory=lambda: {"profiles": [], "policies": []})
    clusters: list[str] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    receivers: list[str] = field(default_factory=list)
    shared: dict[str, str] = field(default_factory=dict)

    def properties(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return profile properties that mark the process as one of this server."""
        return {**given, "env": {"ACCEPTANCE_MARK": str(self.server.state)}}

    def spec(self, given: dict[str, Any] = QUICK) -> dict[str, Any]:
        return {"type": KIND, "version": "1.0", "properties": self.properties(given)}

    def profile(self, given: dict[str, Any] = QUICK, **more: Any) -> Any:
        """Make a profile and return it as the wire has it."""
        body = {"name": fresh("profile"), "spec": self.spec(given), **more}
        made = self.api.post("profiles", {"profile": body}, want=201).json["profile"]
        self.made["profiles"].append(made["id"])
        return made

    def quick(self) -> str:
        """Return the id of the profile that starts and ends at once."""
        if "quick" not in self.shared:
            self.shared["quick"] = self.profile()["id"]
        return self.shared["quick"]

    def stubborn(self) -> str:
        """Return the id of the profile whose processes do not end while they are held."""
        if "stubborn" not in self.shared:
            self.go.touch()
            command = ["sh", "-c", STUBBORN.format(self.go)]
            profile = self.profile({"command": command, "stop_timeout": 600})
            self.shared["stubborn"] = profile["id"]
        return self.shared["stubborn"]

    @property
    def go(self) -> Path:
        """The file that lets stubborn processes end."""
        return self.server.state.parent / "go"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let no stubborn process end while the block lasts, however long that is."""
        wait_for(self._trapped)
        self.go.unlink()
        try:
            yield
        finally:
            self.go.touch()

    def _trapped(self) -> bool:
        """Whether all of them have come so far that SIGTERM does not simply end them."""
        bit, place = 1 << (signal.SIGTERM - 1), str(self.go).encode()
        told = []
        for pid in self.server.living():
            with suppress(OSError):
                if place in Path(f"/proc/{pid}/cmdline").read_bytes():
                    told.append(Path(f"/proc/{pid}/status").read_text())
        return all(int(text.partition("SigCgt:")[2].split()[0], 16) & bit for text in told)

    def policy(self, kind: str, properties: object = None, name: str | None = None) -> Any:
        """Make a policy and return it."""
        body = {"name": name or fresh("policy"), "spec": spec_of(kind, properties)}
        made = self.api.post("policies", {"policy": body}, want=201).json["policy"]
        self.made["policies"].append(made["id"])
        return made

    def asked_cluster(self, desired: int = 0, **more: Any) -> tuple[Any, Answer]:
        """Ask for a cluster; return it as answered, and the answer."""
        body = {
            "name": fresh("cluster"),
            "profile_id": self.quick(),
            "desired_capacity": desired,
            **more,
        }
        answer = self.api.post("clusters", {"cluster": body})
        made = answer.json["cluster"]
        self.clusters.append(made["id"])
        return made, answer

    def cluster(self, desired: int = 0, *, want: str | None = "SUCCEEDED", **more: Any) -> Any:
        """Make a cluster, wait for it, and return it."""
        made, answer = self.asked_cluster(desired, **more)
        self.api.ended(answer, want=want)
        return self.api.get(f"clusters/{made['id']}")["cluster"]

    def node(self, *, want: str | None = "SUCCEEDED", **more: Any) -> Any:
        """Make a node, wait for it, and return it."""
        body = {"name": fresh("node"), "profile_id": self.quick(), **more}
        answer = self.api.post("nodes", {"node": body})
        made = answer.json["node"]
        self.nodes.append(made["id"])
        self.api.ended(answer, want=want)
        return self.api.get(f"nodes/{made['id']}")["node"]

    def receiver(self, cluster: str, **more: Any) -> Any:
        """Make a webhook and return it."""
        body = {
            "name": fresh("receiver"),
            "type": "webhook",
            "cluster_id": cluster,
            "action": "CLUSTER_SCALE_OUT",
            **more,
        }
        made = self.api.post("receivers", {"receiver": body}, want=201).json["receiver"]
        self.receivers.append(made["id"])
        return made

    def act(self, cluster: str, verb: str, data: object, **how: Any) -> Answer:
        """POST a cluster action."""
        return self.api.post(f"clusters/{cluster}/actions", {verb: data}, **how)

    def acted(self, cluster: str, verb: str, data: object, **how: Any) -> Any:
        """POST a cluster action and wait for its end."""
        return self.api.ended(action_of(self.act(cluster, verb, data)), **how)

    def attached(self, cluster: str, kind: str, properties: object = None) -> Any:
        """Make a policy and attach it; return the policy."""
        policy = self.policy(kind, properties)
        self.acted(cluster, "policy_attach", {"policy_id": policy["id"]})
        return policy

    def members(self, cluster: str) -> list[Any]:
        """Return the nodes of a cluster in the order of their index."""
        found = self.api.get(f"nodes?cluster_id={cluster}&sort=index:asc")["nodes"]
        return list(found)

    def sweep(self) -> None:
        """Delete everything that was made; what refuses to go is left to the end of the server."""
        for ident in self.receivers:
            self.api.ask("DELETE", f"receivers/{ident}")
        for ident in self.clusters:
            self.api.ask("DELETE", f"clusters/{ident}?force=true", {"force": True})
        for ident in self.nodes:
            self.api.ask("DELETE", f"nodes/{ident}", {"force": True})
