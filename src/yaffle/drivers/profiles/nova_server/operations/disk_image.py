"""SNAPSHOT: an image of the server's disk, which bears the operation that it was taken for.

Nova makes the image before it answers and fills it afterwards; what it cannot fill it deletes. So
an image of ours that was promised and is not there has come to nothing. The server is not marked:
the image is the trace, and Glance finds it by that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yaffle.drivers.profiles.nova_server.operations.create import facts_of
from yaffle.drivers.profiles.nova_server.operations.inplace import own
from yaffle.drivers.profiles.nova_server.tracking.operation import (
    ABSENT,
    SETTLE_S,
    ServerOperation,
    done,
    failed,
    running,
)
from yaffle.drivers.profiles.nova_server.tracking.verbs import IMAGED, idle
from yaffle.errors import Conflict
from yaffle.integrations.openstack.ownership_tags import CLUSTER, NODE, OPERATION, PURPOSE
from yaffle.integrations.openstack.servers.status_mapping import words_of
from yaffle.model.operations import Progress

if TYPE_CHECKING:
    from yaffle.drivers.profiles.nova_server.api.documents import Image, Server

TAKEN: Final = "snapshot"
"""The attribute that names the image."""
HEAD: Final = "yaffle-"
RECOVERY: Final = "recovery"
"""The purpose of what an engine has taken by itself, and deletes by itself."""
UNDER_WAY: Final = frozenset({"queued", "saving", "uploading", "importing"})
READY: Final = "active"


def submit(job: ServerOperation) -> Progress:
    """Ask for the image, unless this operation has."""
    server = own(job)
    if isinstance(server, Progress):
        return server
    begun = _follow(job, server)
    if begun is not ABSENT:
        return begun
    if not server.image_id:
        return failed(_of_volume(server))
    marks = {
        OPERATION: str(job.operation_id),
        NODE: str(job.target.node_id),
        CLUSTER: str(job.target.cluster_id or ""),
        PURPOSE: str(job.op.params.get("purpose") or ""),
    }
    body = {"createImage": {"name": _name(job), "metadata": marks}}
    try:
        with job.sending(server.id):
            answer = job.nova.do(server.id, body, trace=job.trace)
    except Conflict as error:
        if not idle(server):
            return running(f"later, for something else is being done to it: {error}")
        if server.status not in IMAGED:
            return failed(f"Nova takes no image of a server in {server.status}: {error}")
        raise
    job.accepted(server.id, answer.request_id)
    return running(f"SNAPSHOT accepted ({answer.request_id})")


def poll(job: ServerOperation) -> Progress:
    """Say how far the image is."""
    server = own(job)
    return server if isinstance(server, Progress) else _follow(job, server)


def _follow(job: ServerOperation, server: Server) -> Progress:
    taken = job.nova.images_of(str(job.operation_id))
    if taken:
        # A request that was sent twice has made two: the first is as good as the second.
        return _stands(job, server, min(taken, key=lambda image: (image.created_at, image.id)))
    if job.sent is None:
        return ABSENT
    if job.sent.request_id:
        return failed(f"SNAPSHOT: Nova has given it up; {words_of(server)}")
    if job.waited_s(None) < SETTLE_S:
        return running("asked for, no answer, and nothing to be seen of it yet")
    return ABSENT


def _stands(job: ServerOperation, server: Server, image: Image) -> Progress:
    if image.status in UNDER_WAY:
        return running(f"image {image.id} is {image.status}; {words_of(server)}")
    if image.status != READY:
        return failed(f"SNAPSHOT: image {image.id} is {image.status}")
    facts = {**facts_of(server, job.facts), TAKEN: image.id}
    return done(f"image {image.id} ({image.name})", attributes=facts)


def _of_volume(server: Server) -> str:
    doomed = [disk.id for disk in server.volumes if disk.delete_on_termination]
    what = f"deleted with it: {', '.join(doomed)}" if doomed else "its volumes outlive it"
    return f"it boots from a volume, of which no snapshot is taken; {what}"


def _name(job: ServerOperation) -> str:
    """Return a name that sorts by node and tells operations apart."""
    return f"{HEAD}{job.target.name[:200]}-{str(job.operation_id)[:8]}"


def is_ours(job: ServerOperation, image: Image) -> bool:
    """Whether a recovery has taken the image, and nobody made it his own.

    Nova hands the properties of an image on to whatever is taken of a server that was booted from it,
    so that a person's image may bear our marks; it does not bear the name.
    """
    named = image.name.startswith(HEAD) and image.name.endswith(f"-{image.operation[:8]}")
    mine = image.owner == job.nova.client.project_id
    return mine and named and bool(image.operation) and image.purpose == RECOVERY
