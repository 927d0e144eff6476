"""UPDATE: what a new profile changes, one thing after the other, each of them once.

The order is a table: what can be undone goes first, what loses a disk last, and a server has the
flavor before the image that may need it. The mark on the server names the step that is under way,
so that those before it are over; whoever takes over goes on from there. A poll follows the step that
was begun and never begins another: that is a submit, which whoever may stop us guards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from yaffle.drivers.profiles.nova_server.operations import network_update, rebuild, resize
from yaffle.drivers.profiles.nova_server.operations.create import facts_of
from yaffle.drivers.profiles.nova_server.operations.inplace import newest, own
from yaffle.drivers.profiles.nova_server.tracking.operation import (
    ServerOperation,
    Todo,
    barred,
    done,
    failed,
    taken_up,
    told,
)
from yaffle.drivers.profiles.nova_server.tracking.verbs import REBUILD, UPDATE
from yaffle.errors import Conflict
from yaffle.integrations.openstack.servers.status_mapping import words_of
from yaffle.model.operations import Progress, ProgressState

if TYPE_CHECKING:
    from yaffle.drivers.profiles.nova_server.api.documents import Server
    from yaffle.drivers.profiles.nova_server.tracking.ownership_tags import Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Change of one property of a profile."""

    kind: str
    """What the mark on the server says while it is under way."""
    changes: Callable[[ServerOperation], bool]
    """Whether the new profile says otherwise than the old one."""
    look: Callable[[ServerOperation, Server, Mark | None], Progress | Todo]
    """How far it is, or its next act, to be begun. The mark is its own."""


def submit(job: ServerOperation) -> Progress:
    """Begin the next step, unless one is under way."""
    found = _next_step(job)
    server = own(job) if isinstance(found, Todo) else None
    if server is not None and not isinstance(server, Progress) and (locked := barred(job, server)):
        return locked
    return taken_up(found)


def poll(job: ServerOperation) -> Progress:
    """Say how far it is; ABSENT where the next step is to be begun."""
    return told(_next_step(job))


def _next_step(job: ServerOperation) -> Progress | Todo:
    server = own(job)
    if isinstance(server, Progress):
        return server
    mark = job.marked(server)
    if mark is None or mark.kind != REBUILD:
        if refused := _untold_image(job, server):
            return refused
        job = _spared(job, server)
    at = next((i for i, step in enumerate(STEPS) if mark and step.kind == mark.kind), -1)
    for place, step in enumerate(STEPS):
        if place < at or not (place == at or step.changes(job)):
            continue
        found = step.look(job, server, mark if place == at else None)
        if isinstance(found, Todo) or found.state is not ProgressState.DONE:
            return found
    return _over(job, server)


def _maybe(job: ServerOperation) -> bool:
    """Whether it may have its image already: how far an update came that did not succeed is not known."""
    doubtful = job.op.params.get("in_doubt")
    return isinstance(doubtful, list) and "image" in doubtful and _another_image(job)


def _untold_image(job: ServerOperation, server: Server) -> Progress | None:
    if server.image_id or not _maybe(job):
        return None
    return failed(
        f"UPDATE: whether its volume is of image {job.target.spec.get('image')} is not known since an"
        " update did not succeed; rebuild it, which loses what is on it, or give it a profile with"
        " another image"
    )


def _spared(job: ServerOperation, server: Server) -> ServerOperation:
    """Return the job without a rebuild that would only make sure: a disk is not lost for that."""
    image = job.target.spec.get("image")
    if not _maybe(job) or server.image_id != job.image(image):
        return job
    known = {**old(job), "image": image}
    return replace(job, op=replace(job.op, params={**job.op.params, "old": known}))


def _over(job: ServerOperation, server: Server) -> Progress:
    words = f"it is as its profile says; {words_of(server)}"
    return done(words, attributes=facts_of(server, job.facts))


def old(job: ServerOperation) -> Mapping[str, object]:
    """Return the properties that the server had before."""
    given = job.op.params.get("old")
    return given if isinstance(given, Mapping) else {}


def _another(name: str) -> Callable[[ServerOperation], bool]:
    return lambda job: job.target.spec.get(name) != old(job).get(name)


def _another_image(job: ServerOperation) -> bool:
    return bool(job.target.spec.get("image")) and _another("image")(job)


def _connect(job: ServerOperation, server: Server, mark: Mark | None) -> Progress | Todo:
    before = old(job).get("networks")
    found = network_update.stands(job, server, mark, before)
    return _begun_by(found, lambda: network_update.begin(job, server, before))


def _resize(job: ServerOperation, server: Server, mark: Mark | None) -> Progress | Todo:
    found = resize.stands(job, server, mark)
    return _begun_by(found, lambda: resize.begin(job, server))


def _begun_by(found: Progress, begin: Callable[[], Progress]) -> Progress | Todo:
    return Todo(found.detail, begin) if found.state is ProgressState.ABSENT else found


def _rebuild(job: ServerOperation, server: Server, mark: Mark | None) -> Progress | Todo:
    return rebuild.look(job, server, mark, job.target.spec.get("image"))


def _named(job: ServerOperation, server: Server, mark: Mark | None) -> Progress | Todo:
    # Its mark is written with the metadata, after the name: who finds it need not look at either.
    if mark is None:
        return Todo("name and metadata are to be written", lambda: _name(job, server))
    return done(f"its metadata bears the mark; {words_of(server)}")


def _name(job: ServerOperation, server: Server) -> Progress:
    if server.name != rebuild.name_of(job):
        job.nova.rename(server.id, rebuild.name_of(job))
    try:
        mark = job.mark(before=newest(job, server))
        wanted = rebuild.metadata_of(job, server)
        job.nova.replace_metadata(server.id, {**wanted, **mark.written()})
    except Conflict as error:
        return failed(f"UPDATE: {error}")
    # As it is called now: that is part of what is told of a copy.
    return _over(job, job.nova.show(server.id) or server)


STEPS: Final[tuple[Step, ...]] = (
    Step(
        kind=network_update.KIND,
        changes=_another("networks"),
        look=_connect,
    ),
    Step(
        kind=resize.KIND,
        changes=_another("flavor"),
        look=_resize,
    ),
    # With it name and metadata, as one request of Nova's.
    Step(kind=REBUILD, changes=_another_image, look=_rebuild),
    Step(
        kind=UPDATE,
        changes=lambda job: not _another_image(job),
        look=_named,
    ),
)
