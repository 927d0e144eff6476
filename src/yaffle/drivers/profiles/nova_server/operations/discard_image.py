"""DISCARD: images that recoveries have taken are deleted: one that nobody waits for, or the oldest.

While Nova takes an image it refuses (409) to rebuild the server. Its host notices that the image is
gone when it next writes to it, and drops the task. An image that a server was built from is left:
Nova needs it to rebuild that one, and to move it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yaffle.drivers.profiles.nova_server.operations.disk_image import (
    READY,
    RECOVERY,
    UNDER_WAY,
    is_ours,
)
from yaffle.drivers.profiles.nova_server.tracking.operation import (
    ABSENT,
    ServerOperation,
    done,
    failed,
    running,
)
from yaffle.errors import Conflict, Forbidden
from yaffle.integrations.openstack.ownership_tags import CLUSTER, NODE, PURPOSE
from yaffle.integrations.openstack.servers.status_mapping import HARMLESS, words_of
from yaffle.model.counts import count

if TYPE_CHECKING:
    from yaffle.drivers.profiles.nova_server.api.documents import Image
    from yaffle.model.operations import Progress

EVERY: Final = "every"
"""With it, more than one operation's images are meant: every one, or those beyond the bound."""
SPARED: Final = "spared"
"""Images that somebody may still boot from."""


def submit(job: ServerOperation) -> Progress:
    """Delete what nobody waits for."""
    return _look(job, act=True)


def poll(job: ServerOperation) -> Progress:
    """Say whether anything is left to be deleted, or to be noticed by Nova."""
    return _look(job, act=False)


def _look(job: ServerOperation, *, act: bool) -> Progress:
    return _swept(job, act=act) if EVERY in job.op.params else _given_up(job, act=act)


def _given_up(job: ServerOperation, *, act: bool) -> Progress:
    asked = job.nova.images_of(str(job.operation_id))
    left = [image for image in asked if image.status in UNDER_WAY and is_ours(job, image)]
    if left and not act:
        return ABSENT
    for image in left:
        job.nova.delete_image(image.id)
    server = job.nova.show(job.target.physical_id)
    if server is None or server.task_state not in HARMLESS:
        return done("no image of it is being taken")
    return running(f"its image is given up, which its host has not noticed yet: {words_of(server)}")


def _swept(job: ServerOperation, *, act: bool) -> Progress:
    every, left, deleted = bool(job.op.params[EVERY]), [], 0
    for image in _beyond(job, every=every):
        if server := job.nova.built_from(image.id):
            left.append(f"image {image.id} is left: server {server} was built from it")
            continue
        if not act:
            return ABSENT
        try:
            job.nova.delete_image(image.id)
            deleted += 1
        except (Conflict, Forbidden) as error:
            left.append(f"image {image.id} is left: {error}")
    said = "; ".join([f"{count(deleted, 'image')} deleted", *left])
    return failed(said) if every and left else done(said)


def _beyond(job: ServerOperation, *, every: bool) -> list[Image]:
    """Return what is to go: of a node that is gone all, else what is older than the newest ones."""
    node, cluster = str(job.target.node_id), str(job.target.cluster_id or "")
    # Both are asked for and looked at: what Glance lists too much must not be deleted.
    found = [i for i in _newest_first(job, {NODE: node}) if i.node == node]
    if not every:
        found = _ready(found)[job.kept.per_node :]
        near = _newest_first(job, {CLUSTER: cluster}) if cluster else []
        others = _ready([i for i in near if i.cluster == cluster])[job.kept.per_cluster :]
        found += [image for image in others if image not in found]
    spared = job.op.params.get(SPARED)
    return [i for i in found if not isinstance(spared, list) or i.id not in spared]


def _ready(images: list[Image]) -> list[Image]:
    return [image for image in images if image.status == READY]


def _newest_first(job: ServerOperation, which: dict[str, str]) -> list[Image]:
    found = job.nova.images_with(**which, **{PURPOSE: RECOVERY})
    ours = [image for image in found if is_ours(job, image)]
    return sorted(ours, key=lambda image: (image.created_at, image.id), reverse=True)
