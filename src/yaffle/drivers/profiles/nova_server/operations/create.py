"""CREATE: one server per operation. What may already be there is looked for first, extras are deleted.

Nova does not deduplicate: a request that was sent twice makes two servers. So a request that got no
answer is waited for, and where two servers bear the same operation all the same, the oldest one is
the copy and the others are removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import structlog

from yaffle.drivers.profiles.nova_server.api.nova import PERSONALITY
from yaffle.drivers.profiles.nova_server.operations import dependencies
from yaffle.drivers.profiles.nova_server.spec import encoded_user_data
from yaffle.drivers.profiles.nova_server.status.powered_off_hosts import (
    ended_by_host,
    is_off,
    silent,
)
from yaffle.drivers.profiles.nova_server.status.reading import PROJECT, project_of
from yaffle.drivers.profiles.nova_server.tracking.action_progress import build_failed
from yaffle.drivers.profiles.nova_server.tracking.operation import (
    ABSENT,
    SETTLE_S,
    ServerOperation,
    barred,
    done,
    failed,
    running,
)
from yaffle.errors import BadRequest, NotFound
from yaffle.integrations.openstack.faults import CloudUnavailable
from yaffle.integrations.openstack.ownership_tags import owner_marks
from yaffle.integrations.openstack.servers.queries import READ
from yaffle.integrations.openstack.servers.status_mapping import words_of

if TYPE_CHECKING:
    from yaffle.drivers.profiles.nova_server.api.documents import Server
    from yaffle.integrations.openstack.servers.documents import Listed
    from yaffle.model.operations import Progress

log = structlog.get_logger(__name__)

_VERBATIM: Final = ("availability_zone", "config_drive", "key_name", "personality")


def submit(job: ServerOperation) -> Progress:
    """Ask for a server, unless this operation has, or an older copy may still run."""
    begun = _known(job)
    if begun is not None:
        return begun
    copies = _copies(job)
    ours = [server for server in copies if job.marked(server)]
    if ours:
        return _stands(job, _one_of(job, ours))
    if (refused := _in_the_way(job, copies)) is not None:
        return refused
    version, body = request(job)
    try:
        with job.sending():
            ident = job.nova.create(body, version=version, trace=job.trace)
    except BadRequest as error:
        # "Can not find requested image": Nova does not say which, and the name may have a new owner.
        job.memory.names.forget()
        raise BadRequest(f"{error}; asked for {_asked(job)}{dependencies.held(job)}") from error
    job.accepted(ident, "")
    return running(f"Nova has accepted server {ident}", physical_id=ident)


def _in_the_way(job: ServerOperation, copies: list[Listed]) -> Progress | None:
    """Say why no other copy may be made yet; None where none runs, or the operator wants no proof."""
    left = [s for s in copies if s.id not in job.op.waived and not is_off(job, s.host)]
    if left:
        named = ", ".join(f"{server.id} ({words_of(server)})" for server in left)
        return failed(f"CREATE: an older copy of this node may still run: {named}")
    old = job.target.physical_id
    for server in copies:
        if server.id == old and (locked := barred(job, server)):
            # Since it was given up: a second copy beside it is not what its keeper wants.
            return locked
    if waived := [server.id for server in copies if server.id in job.op.waived]:
        log.warning("made beside an older copy", node=job.target.node_id, servers=waived)
    if job.op.off is None or old in job.op.waived or (not copies and ended_by_host(job, old)):
        return None
    return silent(job)


def _asked(job: ServerOperation) -> str:
    """Name what a server is made of, as the profile does."""
    given = {**job.target.spec, **job.op.params}
    return ", ".join(f"{key} {given[key]}" for key in ("flavor", "image") if given.get(key))


def poll(job: ServerOperation) -> Progress:
    """Say how far the server is."""
    known = _known(job)
    if known is not None:
        return known
    ours = [server for server in _copies(job) if job.marked(server)]
    return _stands(job, _one_of(job, ours)) if ours else ABSENT


def _known(job: ServerOperation) -> Progress | None:
    """Answer from what this process has sent itself; None where that says nothing."""
    sent = job.sent
    if sent is None:
        return None
    if sent.ident:
        twins = [s for s in _copies(job) if job.marked(s)] if sent.again else []
        return _stands(job, _one_of(job, twins) if twins else sent.ident)
    if job.waited_s(None) < SETTLE_S:
        ours = [server for server in _copies(job) if job.marked(server)]
        if ours:
            return _stands(job, _one_of(job, ours))
        return running("asked for, no answer, and nothing to be seen of it yet")
    return None


def _copies(job: ServerOperation) -> list[Listed]:
    """Return every server that is or may be a copy of the node."""
    try:
        # Where a list takes longer than a call may, the next call goes by it.
        snapshot = job.census.take(job.nova, full=True, after_s=job.since_s(SETTLE_S))
        copies = snapshot.copies_of(job.target.node_id, project_of(job.target, job.nova))
    except CloudUnavailable:
        job.still_away()
        raise
    ident = job.target.physical_id
    if ident and all(server.id != ident for server in copies):
        # Its mark may have been wiped, and a list may lack what is there.
        server = job.nova.show(ident)
        if server is not None and server.status != "DELETED":
            copies.append(server)
    return copies


def _one_of(job: ServerOperation, ours: list[Listed]) -> str:
    """Return the copy that counts, and delete what a request sent twice has made besides."""
    for extra in ours[1:]:
        log.warning("extra copy deleted", server=extra.id, node=job.target.node_id)
        try:
            job.nova.delete(extra.id, force=True, trace=job.trace)
        except NotFound:
            continue
    return ours[0].id


def _stands(job: ServerOperation, ident: str) -> Progress:
    """Say how far that server is."""
    server = job.nova.show(ident)
    if server is None:
        return failed(f"CREATE: server {ident} was deleted while it was made", physical_id=ident)
    words = words_of(server)
    match server.status:
        case "BUILD":
            return running(words, physical_id=ident)
        case "ERROR":
            return build_failed(server, waited_s=job.waited_s(job.marked(server)))
        case "UNKNOWN":
            return running(f"Nova cannot reach its cell: {words}", physical_id=ident)
        case _:
            return done(words, physical_id=ident, attributes=facts_of(server, job.facts))


def facts_of(server: Server, where: Mapping[str, object]) -> dict[str, object]:
    """Return what is stored of a node with its copy; `where` says in which cloud that is."""
    found: dict[str, object] = {
        "server_name": server.name,
        "image": server.image_id,
        "flavor": str(server.flavor.get("original_name", "")),
        "node_ip": server.node_ip,
        "host": server.host or "",
        "availability_zone": server.zone or "",
        PROJECT: server.tenant_id,
        **where,
    }
    return {key: value for key, value in found.items() if value != ""}


def request(job: ServerOperation) -> tuple[str, Mapping[str, object]]:
    """Return the version of the API and the body that ask for the node's server."""
    spec = job.target.spec
    server: dict[str, object] = {
        "name": spec.get("name") or job.target.name,
        "flavorRef": job.flavor(spec["flavor"]),
        "networks": networks(job, spec.get("networks", "auto")),
        "OS-DCF:diskConfig": "AUTO" if spec.get("auto_disk_config", True) else "MANUAL",
        "metadata": {**_own(spec), **owner_marks(job.target), **job.mark().written()},
    }
    server |= {key: spec[key] for key in _VERBATIM if spec.get(key) is not None}
    if image := job.op.params.get("image") or spec.get("image"):
        server["imageRef"] = job.image(image)
    if spec.get("admin_pass"):
        server["adminPass"] = spec["admin_pass"]
    if devices := spec.get("block_device_mapping_v2"):
        server["block_device_mapping_v2"] = disks(devices, server.get("imageRef"))
    if isinstance(groups := spec.get("security_groups"), list | tuple):
        server["security_groups"] = [{"name": name} for name in groups]
    if spec.get("user_data"):
        server["user_data"] = encoded_user_data(str(spec["user_data"]))
    if files := spec.get("personality"):
        server["personality"] = _encoded(files)
    body: dict[str, object] = {"server": server}
    if spec.get("scheduler_hints"):
        body["os:scheduler_hints"] = spec["scheduler_hints"]
    return PERSONALITY if files else READ, body


def networks(job: ServerOperation, given: object) -> object:
    """Return networks as Nova wants them: a word, or a list of ids."""
    if not isinstance(given, list | tuple):
        return given
    found: list[dict[str, object]] = []
    for item in given:
        if not isinstance(item, Mapping):
            continue
        if "port" in item:
            found.append({"port": item["port"]})
            continue
        one: dict[str, object] = {"uuid": job.network(item.get("network"))}
        found.append(one | ({"fixed_ip": item["fixed_ip"]} if "fixed_ip" in item else {}))
    return found


def disks(given: object, image: object) -> list[object]:
    """Return block devices as Nova wants them: an image is said to be booted where none of them is."""
    found = list(given) if isinstance(given, list | tuple) else []
    if not image or any(isinstance(one, Mapping) and one.get("boot_index") == 0 for one in found):
        return found
    local = {"source_type": "image", "destination_type": "local", "uuid": image}
    return [{**local, "boot_index": 0, "delete_on_termination": True}, *found]


def _own(spec: Mapping[str, object]) -> dict[str, str]:
    given = spec.get("metadata")
    return {str(k): str(v) for k, v in given.items()} if isinstance(given, Mapping) else {}


def _encoded(files: object) -> list[dict[str, str]]:
    given = files if isinstance(files, list | tuple) else ()
    return [
        {"path": str(f["path"]), "contents": encoded_user_data(str(f["contents"]))}
        for f in given
        if isinstance(f, Mapping)
    ]
