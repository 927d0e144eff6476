"""REBUILD, also as a step of an UPDATE: it carries its mark with it, and may leave a server off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from yaffle.drivers.profiles.nova_server.api.nova import VOLUME_REBUILD
from yaffle.drivers.profiles.nova_server.operations.inplace import ask, find, newest, own
from yaffle.drivers.profiles.nova_server.tracking.action_progress import judge
from yaffle.drivers.profiles.nova_server.tracking.operation import (
    ABSENT,
    ServerOperation,
    Todo,
    barred,
    failed,
    running,
    taken_up,
    told,
)
from yaffle.drivers.profiles.nova_server.tracking.ownership_tags import OURS
from yaffle.drivers.profiles.nova_server.tracking.verbs import REBUILD, Verb, runs
from yaffle.errors import Conflict
from yaffle.integrations.openstack.ownership_tags import owner_marks
from yaffle.integrations.openstack.servers.queries import READ
from yaffle.integrations.openstack.servers.status_mapping import about_to_stop, words_of
from yaffle.model.operations import Progress, ProgressState

if TYPE_CHECKING:
    from yaffle.drivers.profiles.nova_server.api.documents import Server
    from yaffle.drivers.profiles.nova_server.tracking.ownership_tags import Mark

_VERB = Verb(act="rebuild", body=lambda _: {}, reached=runs, by_state=False, starts=True)


def submit(job: ServerOperation) -> Progress:
    """Begin it, unless it has been begun."""
    server = own(job)
    return server if isinstance(server, Progress) else taken_up(_look(job, server))


def poll(job: ServerOperation) -> Progress:
    """Say how far it is; ABSENT also where it is over and Nova has left the server off."""
    server = own(job)
    return server if isinstance(server, Progress) else told(_look(job, server))


def _look(job: ServerOperation, server: Server) -> Progress | Todo:
    image = job.op.params.get("image") or job.target.spec.get("image")
    return look(job, server, job.marked(server), image)


def look(job: ServerOperation, server: Server, mark: Mark | None, image: object) -> Progress | Todo:
    """Say how far the rebuild is that bears this mark, or what is to be begun of it."""
    sent = _part(job)
    found = ABSENT
    if not sent.refused and (mark is not None or sent.sent is not None):
        act = find(sent, _VERB.act, server, mark)
        found = judge(_VERB, server, act, waited_s=sent.waited_s(mark))
        if found.state is ProgressState.DONE:
            # It was looked at before its act had ended. Of one that was off Nova shows for a moment
            # that it runs, and only then switches it off again: what it is left as is seen now.
            server = job.nova.show(server.id) or server
            found = judge(_VERB, server, act, waited_s=sent.waited_s(mark))
    if found.state is ProgressState.ABSENT:
        return Todo(found.detail, lambda: _begin(job, server, image))
    return switched_on(job, server, found)


def _begin(job: ServerOperation, server: Server, image: object) -> Progress:
    """Ask for the rebuild; its metadata is the mark, so that both happen or neither does."""
    if locked := barred(job, server):
        return locked
    ident = job.image(image) if image else server.image_id
    if not ident:
        return failed(f"{job.op.kind}: the server boots from a volume, and no image is given")
    # The mark's kind tells that more than metadata is to be changed.
    mark = replace(job.mark(before=newest(job, server)), kind=REBUILD)
    body: dict[str, object] = {
        "imageRef": ident,
        "metadata": {**metadata_of(job, server), **mark.written()},
    }
    if job.op.kind != REBUILD:
        body["name"] = name_of(job)
    if password := job.op.params.get("admin_pass") or job.target.spec.get("admin_pass"):
        body["adminPass"] = password
    version = READ if server.image_id else VOLUME_REBUILD
    return ask(_part(job), server, {"rebuild": body}, version=version)


def name_of(job: ServerOperation) -> str:
    """Return the name that the server is to have."""
    return str(job.target.spec.get("name") or job.target.name)


def metadata_of(job: ServerOperation, server: Server) -> dict[str, str]:
    """Return the metadata of the server without the mark of an operation."""
    if job.op.kind == REBUILD:
        kept = {k: v for k, v in server.metadata.items() if k not in OURS}
    else:
        given = job.target.spec.get("metadata")
        kept = {str(k): str(v) for k, v in given.items()} if isinstance(given, Mapping) else {}
    return {**kept, **owner_marks(job.target)}


def _part(job: ServerOperation) -> ServerOperation:
    """Return the job under which the rebuild is remembered: an update asks for other acts besides."""
    return job if job.op.kind == REBUILD else job.of(_VERB.act)


def switched_on(job: ServerOperation, server: Server, found: Progress) -> Progress | Todo:
    """Have switched on what has to run and was left off: the last step of what is else DONE."""
    off = server.status == "SHUTOFF" or about_to_stop(server)
    if found.state is not ProgressState.DONE or not off:
        return found
    return Todo(f"over, and to be switched on; {words_of(server)}", lambda: _start(job, server))


def _start(job: ServerOperation, server: Server) -> Progress:
    if locked := barred(job, server):
        return locked
    try:
        job.nova.do(server.id, {"os-start": None}, trace=job.trace)
    except Conflict as error:
        # Somebody was faster, or it is changing. The next look says.
        return running(f"over, and not switched on yet: {error}")
    return running(f"over, and switched on; {words_of(server)}")
