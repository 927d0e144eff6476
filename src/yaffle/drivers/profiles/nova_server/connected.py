"""Whether a server could have the ports, addresses and volumes that its profile names.

Those that the present copy has are free once that is gone; somebody else's are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from yaffle.drivers.profiles.nova_server import cinder
from yaffle.errors import BadRequest, YaffleError

if TYPE_CHECKING:
    from yaffle.drivers.profiles.nova_server.documents import Server
    from yaffle.drivers.profiles.nova_server.job import Job

FREE: Final = frozenset({"available", "downloading"})
"""What Cinder lets a volume be that is to be attached."""
FREED: Final = frozenset({"in-use", "reserved", "attaching", "detaching"})
"""What a volume is that a server has, or is about to have: its deletion sets it free."""
_AVAILABLE: Final = "available"


class Missing(Exception):
    """It is known, and cannot be used; the message says why, `mend` what a person can do."""

    def __init__(self, message: str, mend: str = "") -> None:
        super().__init__(message)
        self.mend = mend


def port(job: Job, old: Server, given: str) -> str:
    """Return a port that nobody else has."""
    owner = job.nova.port(given).device_id
    if owner not in ("", old.id):
        raise Missing(f"port {given} is in use by {owner}", "detach it there")
    return given


def address(job: Job, old: Server, network: str, given: str) -> str:
    """Return an address that no port of somebody else's has, as far as we see ports."""
    try:
        ident = job.network(network)
    except BadRequest:
        # That is said of the network itself.
        return given
    found = job.nova.ports(network_id=ident, fixed_ips=f"ip_address={given}")
    other = next((one for one in found if one.device_id != old.id), None)
    if other is not None:
        owner = f" of {other.device_id}" if other.device_id else ""
        raise Missing(f"address {given} is in use by port {other.id}{owner}", "free it")
    return given


def any_network(job: Job, given: str) -> str:
    """Return the word "auto", which means the only network that there is."""
    mine = job.nova.networks(tenant_id=job.nova.client.project_id, shared="False")
    several = {*mine, *job.nova.networks(shared="True")}
    if len(several) > 1:
        raise Missing(
            f'networks: which of {len(several)} networks "{given}" means is not known',
            "leave only one of them",
        )
    return given


def volume(job: Job, old: Server, given: str) -> str:
    """Return a volume that can be attached as soon as the present copy is gone."""
    found = cinder.volume(job.nova.client, given)
    if "error" in found.status:
        raise Missing(f"volume {given} is {found.status}", "have it mended")
    if found.multiattach:
        return given
    for attached in found.attachments:
        if attached.server_id not in (None, old.id):
            raise Missing(f"volume {given} is in use by {attached.server_id}", "detach it there")
    ours = any(disk.id == given for disk in old.volumes)
    if found.status not in FREE and not (ours and found.status in FREED):
        raise Missing(f"volume {given} is {found.status}, not {_AVAILABLE}", "make it that")
    return given


def held(job: Job) -> str:
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
            if not seen.multiattach
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


def snapshot(job: Job, given: str) -> str:
    """Return a snapshot that a volume can be made of."""
    found = cinder.snapshot(job.nova.client, given)
    if found.status != _AVAILABLE:
        raise Missing(f"snapshot {given} is {found.status}, not {_AVAILABLE}", "make it that")
    return given
