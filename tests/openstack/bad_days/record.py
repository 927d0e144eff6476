"""What Nova has on record of a project afterwards: its servers, deleted ones too, and their acts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from lab.openstack.api import Refused
from tests.openstack.cloud import Cloud


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One server, from its first second to its last."""

    id: str
    node: str
    status: str
    began: datetime
    ended: datetime | None
    acts: tuple[str, ...]
    """The oldest first, without what Nova did of itself."""


def lives(cloud: Cloud, made: Mapping[str, str]) -> dict[str, list[Life]]:
    """Return the servers of a project by their nodes, the oldest first.

    `made` names the nodes of those that are deleted, whose metadata Nova has forgotten.
    """
    project = cloud.credentials.project_id
    found: dict[str, list[Life]] = defaultdict(list)
    for deleted in ("false", "true"):
        path = f"/servers/detail?all_tenants=1&project_id={project}&deleted={deleted}"
        for server in cloud.lab.api.get("compute", path)["servers"]:
            node = server["metadata"].get("cluster_node_id") or made.get(server["id"], "")
            ended = server.get("OS-SRV-USG:terminated_at") or server["updated"]
            found[node].append(
                Life(
                    id=server["id"],
                    node=node,
                    status=server["status"],
                    began=_time(server["created"]),
                    ended=_time(ended) if server["status"] == "DELETED" else None,
                    acts=acts(cloud, server["id"]),
                )
            )
    return {node: sorted(several, key=lambda s: s.began) for node, several in found.items()}


def acts(cloud: Cloud, server: str) -> tuple[str, ...]:
    """Return what users asked to be done to a server, the oldest first."""
    path = f"/servers/{server}/os-instance-actions"
    try:
        found = cloud.lab.api.get("compute", path)["instanceActions"]
    except Refused as refusal:
        if refusal.status != 404:
            raise
        return ()
    return tuple(str(a["action"]) for a in reversed(found) if a["user_id"])


def twins(several: list[Life]) -> list[tuple[str, str]]:
    """Return the pairs of a node's servers that were there at the same time; Nova counts seconds."""
    found = []
    for older, newer in pairwise(several):
        if older.ended is None or (older.ended - newer.began).total_seconds() >= 1.0:
            found.append((older.id, newer.id))
    return found


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.removesuffix("Z").partition(".")[0])
