"""The machines under the servers, as Nova believes them to be; only administrators are told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from yaffle.errors import YaffleError
from yaffle.integrations.openstack.servers.documents import Listed, Service
from yaffle.model.operations import HostReading

if TYPE_CHECKING:
    from yaffle.drivers.profiles.nova_server.api.nova import Nova
    from yaffle.integrations.openstack.servers.server_cache import ServerCache
    from yaffle.model.operations import Target

_WORDS: Final[Mapping[str, bool | None]] = {
    "UP": True,
    "DOWN": False,
    # Not enabled, which says nothing of its health.
    "MAINTENANCE": None,
    "UNKNOWN": None,
}
"""`host_status`, for those who may see it and not the services."""


def hosts(nova: Nova, census: ServerCache, targets: Sequence[Target]) -> list[HostReading]:
    """Return one reading per target, in order; a cloud that does not answer makes all unclear."""
    if not targets:
        return []
    try:
        services = nova.services()
        # Never a late one: a host that has come back since would be lost, and all nodes on it.
        snapshot = census.take(nova) if len(targets) > 1 else None
    except YaffleError as error:
        return [_unclear(str(error)) for _ in targets]
    found: list[HostReading] = []
    for target in targets:
        ident = target.physical_id
        try:
            server = snapshot.servers.get(ident) if snapshot else nova.show(ident)
        except YaffleError as error:
            found.append(_unclear(str(error)))
            continue
        found.append(host_of(server, services))
    return found


def host_of(server: Listed | None, services: Mapping[str, Service] | None) -> HostReading:
    """Return how the machine under one server is."""
    if server is None:
        return _unclear("Nova does not list the server")
    if server.host is None:
        # None both for who may not see it, and for what is on no host.
        if services is None:
            return _unclear("our credentials may not see hosts")
        if server.launched_at is None and server.status == "ERROR":
            return HostReading(name="", up=False, exists=False, detail="it was never placed")
        return _unclear(f"a server that is {server.status} is on no host")
    if services is None:
        up = _WORDS.get(server.host_status or "")
        return HostReading(
            name=server.host, up=up, detail=f"host status {server.host_status or 'not shown'}"
        )
    service = services.get(server.host)
    if service is None and server.host_status != "":
        # Nova's word for a server whose host it does not know is empty: its list lacks something.
        return _unclear(f"Nova lists no nova-compute on {server.host}, and does not say it is gone")
    if service is None:
        return HostReading(
            name=server.host, up=False, exists=False, detail="Nova knows no such nova-compute"
        )
    return HostReading(
        name=server.host,
        up=service.up,
        detail=service.said,
        forced_down=service.forced_down,
        enabled=service.status == "enabled",
        reported=service.updated_at or "",
    )


def _unclear(why: str) -> HostReading:
    return HostReading(name="", up=None, detail=why)
