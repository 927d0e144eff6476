"""Quotas that a new server needs: in Nova, Neutron and Cinder.

What goes with the present copy counts as free: its place, the ports that Nova has made for it, and
the volumes that are deleted with it. Not asked about: quotas of a volume's size, or of a type of volumes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from yaffle.drivers.profiles.nova_server.api import cinder
from yaffle.drivers.profiles.nova_server.api.server_properties import is_a_persons
from yaffle.errors import NotFound

if TYPE_CHECKING:
    from yaffle.drivers.profiles.nova_server.api.documents import Server
    from yaffle.drivers.profiles.nova_server.tracking.operation import ServerOperation

MADE_OF: Final = {"image": "local", "blank": "local", "snapshot": "volume"}
"""What Nova makes a new disk from, and what the disk is where the profile does not say."""


class _Use(NamedTuple):
    """The use of one quota; `most` below zero: unlimited."""

    what: str
    most: int
    used: int
    wanted: int
    freed: int = 0


def servers(job: ServerOperation, old: Server) -> str:
    """Say what of the project's quota of servers is used up; empty where nothing is."""
    new, limits = job.nova.flavor(job.flavor(job.target.spec["flavor"])), job.nova.limits()
    # One that is deleted softly is not counted by Nova.
    counts = old.status != "SOFT_DELETED" and _is_ours(job, old)
    had = old.flavor if counts else {}
    return _exceeded(
        (
            _Use("instances", limits.instances, limits.instances_used, 1, int(counts)),
            _Use("cores", limits.cores, limits.cores_used, new.vcpus, _number(had, "vcpus")),
            _Use("ram", limits.ram, limits.ram_used, new.ram, _number(had, "ram")),
        )
    )


def ports(job: ServerOperation, old: Server) -> str:
    """Say that the quota of ports is used up; empty where it is not, or Neutron keeps no such count."""
    given = job.target.spec.get("networks", "auto")
    wanted = 1 if given == "auto" else sum(not item.get("port") for item in each(given))
    if not wanted:
        return ""
    try:
        quota = job.nova.port_quota()
    except NotFound:
        # A Neutron that does not have that extension says so itself.
        return ""
    if quota is None:
        return ""
    use = _Use("ports", quota.limit, quota.used + quota.reserved, wanted)
    if _exceeded([use]) and _is_ours(job, old):
        had = job.nova.ports(device_id=old.id)
        use = use._replace(freed=sum(not is_a_persons(port, old) for port in had))
    return _exceeded([use])


def volumes(job: ServerOperation, old: Server) -> str:
    """Say what of the quota of volumes is used up; empty where nothing is.

    A size that the profile does not say, as that of a snapshot, is not counted.
    """
    new = [one for one in each(job.target.spec.get("block_device_mapping_v2")) if _is_made(one)]
    if not new:
        return ""
    client = job.nova.client
    limits = cinder.limits(client)
    size = sum(_number(one, "volume_size") for one in new)
    uses = [
        _Use("volumes", limits.volumes, limits.volumes_used, len(new)),
        _Use("gigabytes", limits.gigabytes, limits.gigabytes_used, size),
    ]
    if _exceeded(uses) and _is_ours(job, old):
        gone = [disk.id for disk in old.volumes if disk.delete_on_termination]
        sizes = [cinder.volume(client, ident).size for ident in gone]
        freed = (len(sizes), sum(sizes))
        uses = [use._replace(freed=free) for use, free in zip(uses, freed, strict=True)]
    return _exceeded(uses)


ALL: Final[tuple[Callable[[ServerOperation, Server], str], ...]] = (servers, ports, volumes)


def each(given: object) -> Iterator[Mapping[object, object]]:
    """Yield the items of a list of maps."""
    for item in given if isinstance(given, list | tuple) else ():
        if isinstance(item, Mapping):
            yield item


def _exceeded(uses: Iterable[_Use]) -> str:
    for what, most, used, wanted, freed in uses:
        if 0 <= most < used - freed + wanted:
            return (
                f"Quota exceeded for {what}: {wanted} wanted, {used - freed} of {most} in use by"
                " others: free some, or have the quota raised"
            )
    return ""


def _is_ours(job: ServerOperation, old: Server) -> bool:
    """Whether what the copy has counts in the project that the new one is made in."""
    return old.tenant_id == job.nova.client.project_id


def _is_made(device: Mapping[object, object]) -> bool:
    """Whether Nova has Cinder make a volume for it."""
    usual = MADE_OF.get(str(device.get("source_type")))
    return usual is not None and (device.get("destination_type") or usual) == "volume"


def _number(values: Mapping[object, object] | Mapping[str, object], key: str) -> int:
    found = dict(values).get(key)
    return found if isinstance(found, int) else 0
