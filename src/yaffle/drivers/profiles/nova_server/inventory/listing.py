"""All servers that there are, whether or not they are anybody's nodes: what a watch is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle.drivers.profiles.nova_server.status.reading import PROJECT
from yaffle.drivers.profiles.nova_server.tracking.ownership_tags import OURS
from yaffle.integrations.openstack.ownership_tags import NODE
from yaffle.integrations.openstack.servers.status_mapping import words_of
from yaffle.model.operations import Present

if TYPE_CHECKING:
    from yaffle.drivers.profiles.nova_server.api.documents import Group
    from yaffle.drivers.profiles.nova_server.api.nova import Nova
    from yaffle.integrations.openstack.servers.documents import Listed
    from yaffle.integrations.openstack.servers.server_cache import ServerCache


def present(nova: Nova, census: ServerCache, *, groups: bool) -> list[Present]:
    """Return every server, the oldest first; with `groups` also the server group of each.

    Raises what asking for them has raised, and CloudUnavailable where not all are told.
    """
    found = census.take(nova, nodes=("present",)).whole().servers.values()
    group_of = {ident: g for g in nova.server_groups() for ident in g.members} if groups else {}
    ordered = sorted(found, key=lambda s: (s.created, s.id))
    return [_present(server, group_of.get(server.id)) for server in ordered]


def _present(server: Listed, group: Group | None) -> Present:
    facts: dict[str, object] = {
        PROJECT: server.tenant_id,
        "zone": server.zone,
        "host": server.host,
        "group_id": group.id if group else None,
        "group": group.name if group else None,
        "metadata": {k: v for k, v in server.metadata.items() if k not in OURS},
    }
    return Present(
        physical_id=server.id,
        name=server.name,
        detail=words_of(server),
        owner=server.metadata.get(NODE, ""),
        facts={key: value for key, value in facts.items() if value},
    )
