"""What a project leaves behind besides servers: ports, networks and volumes, where there are such."""

from __future__ import annotations

from typing import Final

from lab.openstack.api import Api, Refused
from lab.openstack.errors import LabError
from lab.openstack.plan import Plan

GONE_S: Final = 60.0
# What holds on to what: the first goes first.
NETWORKING: Final = ("ports", "subnets", "networks", "security-groups")
_DEFAULT: Final = "default"
"""The security group that Neutron makes by itself, and again whenever somebody asks for it."""


def remove_all(plan: Plan, api: Api, project_id: str) -> None:
    """Remove it all; whose servers are gone already."""
    if "cinder" in plan.extras:
        _remove_volumes(api, project_id)
    if "neutron" in plan.extras:
        for kind in NETWORKING:
            found = api.get("network", f"/{kind}?project_id={project_id}")[kind.replace("-", "_")]
            for one in found:
                if kind != "security-groups" or one["name"] != _DEFAULT:
                    _remove(api, "network", f"/{kind}/{one['id']}")


def _remove_volumes(api: Api, project_id: str) -> None:
    """Remove snapshots and volumes, also those that Cinder believes to be attached still."""
    scope = f"all_tenants=1&project_id={project_id}"
    for one in api.get("volume", f"/attachments?{scope}")["attachments"]:
        _remove(api, "volume", f"/attachments/{one['id']}")
    for kind in ("snapshots", "volumes"):
        for one in api.get("volume", f"/{kind}?{scope}")[kind]:
            path = f"/{kind}/{one['id']}"
            try:
                api.call("POST", "volume", f"{path}/action", {"os-force_delete": {}})
            except Refused as refusal:
                if refusal.status != 404:
                    raise
            if not api.gone("volume", path, GONE_S):
                raise LabError(f"Cinder's {path} could not be deleted within {GONE_S:g} s")


def _remove(api: Api, service: str, path: str) -> None:
    try:
        api.call("DELETE", service, path)
    except Refused as refusal:
        if refusal.status != 404:
            raise
