"""Properties of a server that somebody else has made, in the words of a profile.

Said so that another one can be made of it: what goes with the server is made anew, what stays is
named. Nova does not tell which of its ports it has made itself, and deletes with the server: those
that are older than the server, or that a person may have made, are told by their age and name.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from yaffle.drivers.profiles.nova_server.api import cinder
from yaffle.errors import Forbidden, NotFound

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from yaffle.drivers.profiles.nova_server.api.documents import Disk, Port, Server
    from yaffle.drivers.profiles.nova_server.api.nova import Nova

OLDER: Final = timedelta(seconds=60)
"""So much older than its server a port is a person's, whatever the clocks of two services are."""


class Untold(Exception):
    """Raised where nothing says what something was made of; the message names it."""


def networks(nova: Nova, server: Server) -> object:
    """Return its networks, ports of a person's by their ids, in the order in which it has them."""
    ports = nova.ports(device_id=server.id) if nova.client.place("network") else []
    if not ports:
        return [{"network": name} for name in server.addresses] or "none"
    order = [address.addr for several in server.addresses.values() for address in several]
    ports.sort(key=lambda port: _place(port, order))
    return [
        {"port": port.id} if is_a_persons(port, server) else {"network": port.network_id}
        for port in ports
    ]


def disks(nova: Nova, server: Server) -> list[dict[str, object]]:
    """Return its volumes; raise Untold where it is not known what one that goes with it was made of."""
    if not server.volumes:
        return []
    places = nova.disks(server.id)
    root = "" if server.image_id else _root(nova, server, places)
    several = sorted(server.volumes, key=lambda disk: (disk.id != root, places.get(disk.id) or "~"))
    return [_disk(nova, disk, boots=disk.id == root) for disk in several]


def _root(nova: Nova, server: Server, places: Mapping[str, str]) -> str:
    """Return the volume that a server boots from: Nova's word, the only one, or the only bootable one."""
    known = [disk.id for disk in server.volumes]
    if server.root_device:
        known = [ident for ident in known if places.get(ident) == server.root_device] or known
    if len(known) > 1:
        known = [ident for ident in known if _asked(nova, ident).bootable == "true"]
    if len(known) != 1:
        raise Untold(
            f"which of the {len(server.volumes)} volumes of server {server.id} it boots from"
        )
    return known[0]


def _asked(nova: Nova, ident: str) -> cinder.Volume:
    try:
        return cinder.volume(nova.client, ident)
    except (Forbidden, NotFound) as error:
        raise Untold(f"volume {ident}: {error}") from error


def _disk(nova: Nova, disk: Disk, *, boots: bool) -> dict[str, object]:
    first: dict[str, object] = {"boot_index": 0} if boots else {}
    kept = {"destination_type": "volume", "delete_on_termination": disk.delete_on_termination}
    if not disk.delete_on_termination:
        return {**first, "source_type": "volume", "uuid": disk.id, **kept}
    found = _asked(nova, disk.id)
    return {**first, **_origin(found, boots=boots), **kept, "volume_size": found.size}


def _origin(found: cinder.Volume, *, boots: bool) -> dict[str, object]:
    """Return what a volume was made of: a copy knows the image of what it was copied from, which had more
    on it."""
    if found.snapshot_id:
        return {"source_type": "snapshot", "uuid": found.snapshot_id}
    if found.source_volid:
        raise Untold(f"volume {found.id}, which goes with the server and is a copy of another one")
    if found.image_id:
        return {"source_type": "image", "uuid": found.image_id}
    if boots:
        raise Untold(f"volume {found.id}, which goes with the server and was made of no image")
    return {"source_type": "blank"}


def is_a_persons(port: Port, server: Server) -> bool:
    """Whether a port that a server has was made before it, and stays when that goes."""
    try:
        older = _at(server.created) - _at(port.created_at)
    except ValueError:
        # A stamp that is missing, or none: its age is not known.
        return False
    return older >= OLDER or (bool(port.name) and older > timedelta())


def _at(stamp: str) -> datetime:
    """Read a stamp of Nova's or Neutron's: both are in UTC, and not all of them say so."""
    return datetime.fromisoformat(stamp).replace(tzinfo=UTC)


def _place(port: Port, order: Sequence[str]) -> int:
    addresses = {fixed.ip_address for fixed in port.fixed_ips}
    return next((n for n, address in enumerate(order) if address in addresses), len(order))
