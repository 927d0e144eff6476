"""REBUILD and UPDATE: changes that carry their mark with them, and may leave a server switched off."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from yaffle.clouds.openstack.owner import owner_marks
from yaffle.clouds.openstack.servers.asking import READ
from yaffle.clouds.openstack.servers.mapping import words_of
from yaffle.drivers.profiles.nova_server.acting import ask, find, newest, own
from yaffle.drivers.profiles.nova_server.job import ABSENT, Job, done, failed, running
from yaffle.drivers.profiles.nova_server.judging import judge
from yaffle.drivers.profiles.nova_server.marks import OURS
from yaffle.drivers.profiles.nova_server.nova import VOLUME_REBUILD
from yaffle.drivers.profiles.nova_server.verbs import REBUILD, UPDATE, Verb, runs
from yaffle.errors import Conflict
from yaffle.model.operations import Progress, ProgressState

if TYPE_CHECKING:
    from yaffle.drivers.profiles.nova_server.documents import Server

_VERB = Verb(act="rebuild", body=lambda _: {}, reached=runs, by_state=False, starts=True)


def submit(job: Job) -> Progress:
    """Begin it, unless it has been begun."""
    server = own(job)
    if isinstance(server, Progress):
        return server
    begun = _follow(job, server)
    if begun.state is not ProgressState.ABSENT:
        return begun
    if job.op.kind == REBUILD:
        return _rebuild(job, server, job.op.params.get("image") or job.target.spec.get("image"))
    return _update(job, server)


def poll(job: Job) -> Progress:
    """Say how far it is; switches a rebuilt server on that Nova has left off."""
    server = own(job)
    return server if isinstance(server, Progress) else _follow(job, server)


def _rebuild(job: Job, server: Server, image: object) -> Progress:
    """Ask for the rebuild; its metadata is the mark, so that both happen or neither does."""
    ident = job.image(image) if image else server.image_id
    if not ident:
        return failed(f"{job.op.kind}: the server boots from a volume, and no image is given")
    # The mark's kind tells that more than metadata is to be changed.
    mark = replace(job.mark(before=newest(job, server)), kind=REBUILD)
    body: dict[str, object] = {
        "imageRef": ident,
        "metadata": {**_wanted(job, server), **mark.written()},
    }
    if job.op.kind != REBUILD:
        body["name"] = _name(job)
    if password := job.op.params.get("admin_pass") or job.target.spec.get("admin_pass"):
        body["adminPass"] = password
    version = READ if server.image_id else VOLUME_REBUILD
    return ask(job, server, {"rebuild": body}, version=version)


def _update(job: Job, server: Server) -> Progress:
    """Give it the properties of its profile: at once, but for another image."""
    old = job.op.params.get("old")
    before = old if isinstance(old, Mapping) else {}
    image = job.target.spec.get("image")
    if image != before.get("image") and image:
        return _rebuild(job, server, image)
    if server.name != _name(job):
        job.nova.rename(server.id, _name(job))
    # Last, for it is the mark as well: who finds it need not look at the rest.
    try:
        mark = job.mark(before=newest(job, server))
        job.nova.replace_metadata(server.id, {**_wanted(job, server), **mark.written()})
    except Conflict as error:
        return failed(f"UPDATE: {error}")
    return done(f"name and metadata are as the profile has them; {words_of(server)}")


def _name(job: Job) -> str:
    return str(job.target.spec.get("name") or job.target.name)


def _wanted(job: Job, server: Server) -> dict[str, str]:
    """Return the metadata of the server without the mark of an operation."""
    if job.op.kind == REBUILD:
        kept = {k: v for k, v in server.metadata.items() if k not in OURS}
    else:
        given = job.target.spec.get("metadata")
        kept = {str(k): str(v) for k, v in given.items()} if isinstance(given, Mapping) else {}
    return {**kept, **owner_marks(job.target)}


def _follow(job: Job, server: Server) -> Progress:
    mark = job.marked(server)
    if job.refused or (mark is None and job.sent is None):
        return ABSENT
    if mark is not None and mark.kind == UPDATE:
        # No rebuild was asked for: name and metadata were all there was to change.
        return done(f"its metadata bears the mark; {words_of(server)}")
    act = find(job, _VERB.act, server, mark)
    found = judge(_VERB, server, act, waited_s=job.waited_s(mark))
    return switched_on(job, server, found)


def switched_on(job: Job, server: Server, found: Progress) -> Progress:
    """Switch on what has to run and was left off: the last step of what is else DONE."""
    if found.state is not ProgressState.DONE or server.status != "SHUTOFF":
        return found
    # A conflict: somebody was faster, or it is changing. The next look says.
    with suppress(Conflict):
        job.nova.do(server.id, {"os-start": None}, trace=job.trace)
    return running(f"over, and switched on; {words_of(server)}")
