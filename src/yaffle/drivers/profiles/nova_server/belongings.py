"""What a server that somebody else has made is connected to and has, in the words of a profile.

Said so that another one can be made of it: what goes with the server is made anew, what stays is
named. Nova does not tell which of its ports it has made itself, and deletes with the server: those
that are older than the server, or that a person may have made, are told by their age and name.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from yaffle.drivers.profiles.nova_server import cinder
from yaffle.errors import Forbidden, NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaffle.drivers.profiles.nova_server.documents import Disk, Port, Server
    from yaffle.drivers.profiles.nova_server.nova import Nova

OLDER: Final = timedelta(seconds=60)
"""So much older than its server a port is a person's, whatever the clocks of two services are."""


class Untold(Exception):
    """Nothing says what something was made of; the message names it."""


def networks(nova: Nova, server: Server) -> object:
    """Return its networks, ports of a person's by their ids, in the order in which it has them."""
    ports = nova.ports(device_id=server.id) if nova.client.place("network") else []
    if not ports:
        return [{"network": name} for name in server.addresses] or "none"
    order = [address.addr for several in server.addresses.values() for address in several]
    ports.sort(key=lambda port: _place(port, order))
    return [
        {"port": port.id} if _is_a_persons(port, server) else {"network": port.network_id}
        for port in ports
    ]


def disks(nova: Nova, server: Server) -> list[dict[str, object]]:
    """Return its volumes; raise Untold where it is not known what one that goes with it was made of."""
    if not server.volumes:
        return []
    places = nova.disks(server.id)
    several = sorted(server.volumes, key=lambda disk: places.get(disk.id) or "~")
    return [
        _disk(nova, disk, boots=number == 0 and not server.image_id)
        for number, disk in enumerate(several)
    ]


def _disk(nova: Nova, disk: Disk, *, boots: bool) -> dict[str, object]:
    first: dict[str, object] = {"boot_index": 0} if boots else {}
    kept = {"destination_type": "volume", "delete_on_termination": disk.delete_on_termination}
    if not disk.delete_on_termination:
        return {**first, "source_type": "volume", "uuid": disk.id, **kept}
    try:
        found = cinder.volume(nova.client, disk.id)
    except (Forbidden, NotFound) as error:
        raise Untold(f"volume {disk.id}, which goes with the server: {error}") from error
    size = {"volume_size": found.size}
    if not boots:
        return {"source_type": "blank", **kept, **size}
    if not found.image_id:
        raise Untold(f"volume {disk.id}, which goes with the server and was made of no image")
    return {**first, "source_type": "image", "uuid": found.image_id, **kept, **size}


def _is_a_persons(port: Port, server: Server) -> bool:
    older = _at(server.created) - _at(port.created_at) if port.created_at else timedelta()
    return older >= OLDER or (bool(port.name) and older > timedelta())


def _at(stamp: str) -> datetime:
    """Read a stamp of Nova's or Neutron's: both are in UTC, and not all of them say so."""
    return datetime.fromisoformat(stamp).replace(tzinfo=UTC)


def _place(port: Port, order: Sequence[str]) -> int:
    addresses = {fixed.ip_address for fixed in port.fixed_ips}
    return next((n for n, address in enumerate(order) if address in addresses), len(order))
