"""Taking over servers that somebody else has made: looked at first, then marked as a node's copy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from yaffle.drivers.profiles.nova_server import spec as specs
from yaffle.drivers.profiles.nova_server.api import server_properties
from yaffle.drivers.profiles.nova_server.api.documents import Server
from yaffle.drivers.profiles.nova_server.operations.create import facts_of
from yaffle.drivers.profiles.nova_server.tracking.operation import stranger
from yaffle.drivers.profiles.nova_server.tracking.ownership_tags import MARKABLE, OURS
from yaffle.errors import Conflict, InvalidSpec, YaffleError
from yaffle.integrations.openstack.ownership_tags import NODE, owner_marks
from yaffle.integrations.openstack.servers.status_mapping import words_of
from yaffle.model.operations import Inspection, InspectionState, Reading

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaffle.drivers.profiles.nova_server.api.nova import Nova
    from yaffle.integrations.openstack.servers.documents import Listed
    from yaffle.model.operations import Target


FOLLOWED_MAX: Final = 25
"""Copies that came late whose facts are asked for in a single reading; the others wait for the next."""


def followed(
    nova: Nova,
    targets: Sequence[Target],
    readings: Sequence[Reading],
    where: Mapping[str, object],
) -> list[Reading]:
    """Return the readings, those of another copy than the one asked for with the facts of that one.

    `where` says in which cloud a server is: its host may have the name of another cloud's.

    Whoever takes such a copy for the node's own has to know where it is reached: the address of the
    copy that is gone may be somebody else's by now. Without its facts it is not spoken of.
    """
    told, left = [], FOLLOWED_MAX
    for target, reading in zip(targets, readings, strict=True):
        if not reading.exists or reading.physical_id in {"", target.physical_id}:
            told.append(reading)
            continue
        left -= 1
        told.append(_followed(nova, target, reading, where, ask=left >= 0))
    return told


def _followed(
    nova: Nova, target: Target, reading: Reading, where: Mapping[str, object], *, ask: bool
) -> Reading:
    try:
        server = nova.show(reading.physical_id) if ask else None
    except YaffleError:
        server = None
    if server is None:
        return replace(reading, physical_id=target.physical_id)
    return replace(reading, attributes=facts_of(server, where))


def inspect(
    nova: Nova,
    identity: str,
    *,
    overrides: Mapping[str, object],
    snapshot: bool,
    where: Mapping[str, object],
    project: str | None,
) -> Inspection:
    """Say what the server with that id or name is, and which profile would build another one.

    `project`: those of others are not there; None where all are. Whatever it is refused for, the
    attributes say whose it is: who may not know of it is not told why either.
    """
    if snapshot:
        return _refused("taking a snapshot while adopting is not supported")
    found = _found(nova, identity, project)
    if isinstance(found, Inspection):
        return found
    inspected = _inspected(nova, found, overrides, where)
    if not (owner := found.metadata.get(NODE)):
        return replace(inspected, attributes=facts_of(found, where))
    # With all that is known of it: whoever was marking it may have died over it, and goes on.
    why = f"server {found.id} is the copy of node {owner}"
    return replace(
        inspected,
        state=InspectionState.REFUSED,
        detail=why,
        owner=owner,
        physical_id=found.id,
        attributes=facts_of(found, where),
    )


def _inspected(
    nova: Nova, found: Server, overrides: Mapping[str, object], where: Mapping[str, object]
) -> Inspection:
    try:
        disks = {} if "block_device_mapping_v2" in overrides else disks_of(nova, found)
        properties = specs.validate({**properties_of(nova, found), **disks, **overrides})
    except server_properties.Untold as error:
        return _refused(f"nothing tells what it was made of: {error}; give block_device_mapping_v2")
    except InvalidSpec as error:
        return _refused(f"no profile can be made of it: {'; '.join(error.problems)}")
    return _as_found(found, where, properties)


def adopt(
    nova: Nova, target: Target, *, where: Mapping[str, object], project: str | None
) -> Inspection:
    """Mark the server as the node's copy; once for the same node, and never for a second one."""
    server = nova.show(target.physical_id)
    if server is None or not _is_of(server, project):
        return _absent(target.physical_id)
    if why := stranger(server, target):
        return _refused(why, owner=server.metadata[NODE])
    if server.metadata.get(NODE) != str(target.node_id):
        if server.status not in MARKABLE:
            return _refused(f"Nova takes no metadata for it now: {words_of(server)}")
        try:
            nova.mark(server.id, owner_marks(target))
        except Conflict as error:
            return _refused(str(error))
    # What could build another one was settled before it was marked, and is not asked for again.
    return _as_found(server, where, {})


def properties_of(nova: Nova, server: Server) -> dict[str, object]:
    """Return the properties of a profile that would build another one like it, but for its volumes.

    What a server does not tell (user data, scheduler hints, fixed addresses) has to be given.
    """
    found: dict[str, object] = {
        "flavor": str(server.flavor.get("original_name", "")),
        "image": server.image_id,
        "key_name": server.key_name,
        "metadata": {k: v for k, v in server.metadata.items() if k not in OURS},
        "networks": server_properties.networks(nova, server),
        "security_groups": sorted({group["name"] for group in server.security_groups}),
    }
    return {key: value for key, value in found.items() if value}


def disks_of(nova: Nova, server: Server) -> dict[str, object]:
    """Return what such a profile says of volumes, if there are any."""
    found = server_properties.disks(nova, server)
    return {"block_device_mapping_v2": found} if found else {}


def _found(nova: Nova, identity: str, project: str | None) -> Server | Inspection:
    server = nova.show(identity)
    if server is not None:
        return server if _is_of(server, project) else _absent(identity)
    # A pattern to Nova, and a database's dialect of one: the name itself is compared here.
    # Many projects have a server of that name: a name stands for one of the credential's own.
    mine = nova.client.project_id
    listed = nova.page(name=identity).servers
    named = [s for s in listed if s.name == identity and _is_of(s, mine)]
    if len(named) > 1:
        return _refused(f"{len(named)} servers have the name {identity!r}; give an id")
    server = nova.show(named[0].id) if named else None
    return server if server is not None and _is_of(server, mine) else _absent(identity)


def _is_of(server: Listed, project: str | None) -> bool:
    """Whether a server is one of that project's; None stands for all of them."""
    return project is None or (bool(project) and server.tenant_id == project)


def _as_found(
    server: Server, where: Mapping[str, object], properties: Mapping[str, object]
) -> Inspection:
    return Inspection(
        state=InspectionState.FOUND,
        detail=words_of(server),
        physical_id=server.id,
        properties=properties,
        attributes=facts_of(server, where),
    )


def _refused(detail: str, *, owner: str = "") -> Inspection:
    return Inspection(state=InspectionState.REFUSED, detail=detail, owner=owner)


def _absent(identity: str) -> Inspection:
    return Inspection(state=InspectionState.ABSENT, detail=f"Nova knows no server {identity!r}")
