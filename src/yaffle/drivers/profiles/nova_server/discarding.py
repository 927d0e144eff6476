"""DISCARD: an image that a recovery waits for no longer is deleted, so that Nova gives up taking it.

While it takes one Nova refuses (409) to rebuild the server. Its host notices that the image is gone
when it next writes to it, and drops the task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from yaffle.clouds.openstack.servers.mapping import HARMLESS, words_of
from yaffle.drivers.profiles.nova_server.job import ABSENT, Job, done, running
from yaffle.drivers.profiles.nova_server.snapshotting import UNDER_WAY, is_ours

if TYPE_CHECKING:
    from yaffle.model.operations import Progress


def submit(job: Job) -> Progress:
    """Delete what was asked for under this operation's id and is not ready."""
    return _given_up(job, act=True)


def poll(job: Job) -> Progress:
    """Say whether Nova has noticed."""
    return _given_up(job, act=False)


def _given_up(job: Job, *, act: bool) -> Progress:
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
