"""Whether a server could have the ports, addresses and volumes that its profile names.

Those that the present copy has are free once that is gone; somebody else's are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from yaffle.drivers.profiles.nova_server.api import cinder
from yaffle.drivers.profiles.nova_server.api.server_properties import is_a_persons
from yaffle.errors import BadRequest, YaffleError

if TYPE_CHECKING:
    from yaffle.drivers.profiles.nova_server.api.documents import Server
    from yaffle.drivers.profiles.nova_server.tracking.operation import ServerOperation

FREE: Final = frozenset({"available", "downloading"})
"""What Cinder lets a volume be that is to be attached."""
SHARED: Final = FREE | {"in-use"}
"""The same for a volume that several servers may have."""
FREED: Final = frozenset(
    {
        "in-use",
        "reserved",
        "attaching",
        "detaching",
        "backing-up",
        "extending",
        "error_backing-up",
        "error_extending",
    }
)
"""What a volume is that a server has, or is about to have: its deletion sets it free. Cinder says anew
how it is then, by who else has it, whatever else was done to it meanwhile."""
_AVAILABLE: Final = "available"


class Missing(Exception):
    """Raised for a dependency that cannot be used; the message says why, `mend` what a person can do."""

    def __init__(self, message: str, mend: str = "") -> None:
        super().__init__(message)
        self.mend = mend


def port(job: ServerOperation, old: Server, given: str) -> str:
    """Return a port that nobody else has."""
    owner = job.nova.port(given).device_id
    if owner not in ("", old.id):
        raise Missing(f"port {given} is in use by {owner}", "detach it there")
    return given


def address(job: ServerOperation, old: Server, network: str, given: str) -> str:
    """Return an address that no port of somebody else's has, as far as we see ports."""
    try:
        ident = job.network(network)
    except BadRequest:
        # That is said of the network itself.
        return given
    found = job.nova.ports(network_id=ident, fixed_ips=f"ip_address={given}")
    stays = next((one for one in found if one.device_id == old.id and is_a_persons(one, old)), None)
    if stays is not None:
        raise Missing(
            f"address {given} is that of port {stays.id}, which stays when the server goes",
            f"give the port instead (port: {stays.id})",
        )
    other = next((one for one in found if one.device_id != old.id), None)
    if other is not None:
        owner = f" of {other.device_id}" if other.device_id else ""
        raise Missing(f"address {given} is in use by port {other.id}{owner}", "free it")
    return given


def any_network(job: ServerOperation, given: str) -> str:
    """Return the word "auto", which means the only network that there is."""
    mine = job.nova.networks(tenant_id=job.nova.client.project_id, shared="False")
    several = {*mine, *job.nova.networks(shared="True")}
    if len(several) > 1:
        raise Missing(
            f'networks: which of {len(several)} networks "{given}" means is not known',
            "leave only one of them",
        )
    return given


def volume(job: ServerOperation, old: Server, given: str) -> str:
    """Return a volume that can be attached as soon as the present copy is gone."""
    ours = next((disk for disk in old.volumes if disk.id == given), None)
    if ours is not None and ours.delete_on_termination:
        raise Missing(
            f"volume {given} would be deleted with the server",
            f"set that right: `openstack server volume update --preserve-on-termination {old.id}"
            f" {given}`",
        )
    found = cinder.volume(job.nova.client, given)
    others = [one.server_id for one in found.attachments if one.server_id not in (None, old.id)]
    if others and not found.multiattach:
        raise Missing(f"volume {given} is in use by {others[0]}", "detach it there")
    free = SHARED if found.multiattach else FREE
    if found.status in free or (ours is not None and not others and found.status in FREED):
        return given
    if "error" in found.status:
        raise Missing(f"volume {given} is {found.status}", "have it mended")
    raise Missing(f"volume {given} is {found.status}, not {_AVAILABLE}", "make it that")


def held(job: ServerOperation) -> str:
    """Say which of the profile's volumes Cinder believes to be attached; empty where it does not tell.

    A server that was deleted while Cinder did not answer leaves its volumes attached to nobody.
    """
    found = []
    for ident in volumes(job.target.spec):
        try:
            seen = cinder.volume(job.nova.client, ident)
        except YaffleError:
            continue
        found += [
            f"volume {ident} is attached to {one.server_id}; if that is gone: `openstack volume"
            f" attachment delete {one.attachment_id}`"
            for one in seen.attachments
            if not seen.multiattach or seen.status not in SHARED
        ]
    return "".join(f"; {one}" for one in found)


def volumes(spec: Mapping[str, object]) -> list[str]:
    """Return the volumes that a profile names."""
    given = spec.get("block_device_mapping_v2")
    devices = given if isinstance(given, list | tuple) else ()
    return [
        str(one["uuid"])
        for one in devices
        if isinstance(one, Mapping) and one.get("source_type") == "volume" and one.get("uuid")
    ]


def snapshot(job: ServerOperation, given: str) -> str:
    """Return a snapshot that a volume can be made of."""
    found = cinder.snapshot(job.nova.client, given)
    if found.status != _AVAILABLE:
        raise Missing(f"snapshot {given} is {found.status}, not {_AVAILABLE}", "make it that")
    return given
