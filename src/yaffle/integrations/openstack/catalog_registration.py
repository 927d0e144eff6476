"""Tells a cloud's catalog where Yaffle is, so that `openstack cluster …` and the SDK find it there.

What is there already is kept: run it again after every upgrade, and on every node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from yaffle.errors import BadRequest

if TYPE_CHECKING:
    from openstack.identity.v3._proxy import Proxy as Keystone

INTERFACES: Final = ("public", "internal", "admin")
SERVICE_TYPE: Final = "clustering"
"""What clients look for: Senlin's (service-types authority)."""
INSTANCE_HA: Final = "instance-ha"
"""Masakari's."""
INSTANCE_HA_PATH: Final = "/instance-ha/v1"


class Step(StrEnum):
    """The change that is made to one entry of the catalog."""

    CREATED = "created"
    CHANGED = "changed"
    KEPT = "kept"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry that the catalog is to have."""

    urls: Mapping[str, str]
    """By interface; without the version: clients discover it."""
    region: str
    type: str = SERVICE_TYPE
    name: str = "yaffle"
    description: str = "Yaffle, self-healing clusters"

    def of_instance_ha(self) -> Entry:
        """Return the entry by which clients of Masakari find the same server."""
        return replace(
            self,
            urls={interface: f"{url}{INSTANCE_HA_PATH}" for interface, url in self.urls.items()},
            type=INSTANCE_HA,
            name=f"{self.name}-{INSTANCE_HA}",
            description="Yaffle, told of failed hosts",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An endpoint that the catalog has; `id` is empty for one that it is to get."""

    id: str
    interface: str
    region: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A line of the plan, or of what was done."""

    step: Step
    endpoint: Endpoint
    before: str = ""
    """The URL that it had."""


def plan(entry: Entry, present: Iterable[Endpoint]) -> Sequence[Change]:
    """Return what has to be done so that the catalog says `entry`; other regions are left alone."""
    here = {e.interface: e for e in present if e.region == entry.region}
    changes = []
    for interface, url in entry.urls.items():
        old = here.get(interface)
        new = Endpoint(id=old.id if old else "", interface=interface, region=entry.region, url=url)
        if old is None:
            changes.append(Change(step=Step.CREATED, endpoint=new))
        elif old.url.rstrip("/") != url.rstrip("/"):
            changes.append(Change(step=Step.CHANGED, endpoint=new, before=old.url))
        else:
            changes.append(Change(step=Step.KEPT, endpoint=old))
    return changes


def urls(url: str, *, internal: str | None = None, admin: str | None = None) -> Mapping[str, str]:
    """Return a URL for each interface; what is not given is the public one."""
    return MappingProxyType(
        dict(zip(INTERFACES, (url, internal or url, admin or url), strict=True))
    )


def register(keystone: Keystone, entry: Entry) -> tuple[Step, Sequence[Change]]:
    """Make the catalog say `entry`; return what was done to the service and to each endpoint.

    Raises BadRequest where the catalog has several services of that type; what the cloud answers
    comes through as the SDK's exceptions.
    """
    services = _services(keystone, entry.type)
    done = Step.KEPT if services else Step.CREATED
    ident = (
        services[0]
        if services
        else str(
            keystone.create_service(
                type=entry.type, name=entry.name, description=entry.description
            ).id
        )
    )
    changes = plan(entry, _endpoints(keystone, ident))
    for change in changes:
        to = change.endpoint
        if change.step is Step.CREATED:
            keystone.create_endpoint(
                service_id=ident, interface=to.interface, region_id=to.region, url=to.url
            )
        elif change.step is Step.CHANGED:
            keystone.update_endpoint(to.id, url=to.url)
    return done, changes


def unregister(keystone: Keystone, service_type: str, region: str) -> Sequence[Change]:
    """Take a region's endpoints out of the catalog, and the service with the last of them."""
    changes = []
    for ident in _services(keystone, service_type):
        present = _endpoints(keystone, ident)
        ours = [e for e in present if e.region == region]
        for endpoint in ours:
            keystone.delete_endpoint(endpoint.id)
            changes.append(Change(step=Step.REMOVED, endpoint=endpoint))
        if len(ours) == len(present):
            keystone.delete_service(ident)
    return changes


def _services(keystone: Keystone, service_type: str) -> Sequence[str]:
    found = [str(s.id) for s in keystone.services(type=service_type)]
    if len(found) > 1:
        raise BadRequest(
            f"the catalog has {len(found)} services of the type {service_type!r}:"
            f" {', '.join(found)}",
            hint="remove those that are none: openstack service delete ID",
        )
    return found


def _endpoints(keystone: Keystone, service_id: str) -> Sequence[Endpoint]:
    return [
        Endpoint(id=str(e.id), interface=str(e.interface), region=str(e.region_id), url=str(e.url))
        for e in keystone.endpoints(service_id=service_id)
    ]
