"""The flavor of a server that is updated: a resize of Nova's, confirmed once it has come about.

The server is marked before the resize is asked for: in VERIFY_RESIZE and amid its tasks Nova takes
no metadata. What is to be done next says `resize_table.py`. A server that was off stays off.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, assert_never

from yaffle.clouds.openstack.servers.mapping import words_of
from yaffle.drivers.profiles.nova_server import parts
from yaffle.drivers.profiles.nova_server.acting import ask, newest
from yaffle.drivers.profiles.nova_server.freeing import for_verb
from yaffle.drivers.profiles.nova_server.job import SETTLE_S, absent, done, failed, running
from yaffle.drivers.profiles.nova_server.judging import wrong_with
from yaffle.drivers.profiles.nova_server.marks import mark_of
from yaffle.drivers.profiles.nova_server.resize_table import (
    CONFIRM,
    RESIZE,
    REVERT,
    VERIFY,
    Move,
    Record,
    Row,
    Seen,
    record_of,
    row_of,
    stage_of,
)
from yaffle.drivers.profiles.nova_server.verbs import idle
from yaffle.errors import BadRequest, Conflict, Forbidden, YaffleError

if TYPE_CHECKING:
    from yaffle.clouds.openstack.servers.documents import Action
    from yaffle.drivers.profiles.nova_server.documents import Server
    from yaffle.drivers.profiles.nova_server.job import Job
    from yaffle.drivers.profiles.nova_server.marks import Mark
    from yaffle.drivers.profiles.nova_server.parts import Size
    from yaffle.model.operations import Progress

KIND: Final = "RESIZE"
"""What the mark says."""


def wanted(job: Job) -> Size:
    """Return the flavor that the server is to have."""
    return parts.size(job.nova, job.flavor(job.target.spec["flavor"]))


def stands(job: Job, server: Server, mark: Mark | None) -> Progress:
    """Say how far it is, and move it on: confirm what has come about, revert what cannot be."""
    size = wanted(job)
    record = _record(job, server, mark or _older(server))
    seen = Seen(
        status=server.status,
        idle=idle(server),
        fits=size.is_of(server),
        resize=stage_of(record.resize),
        confirm=stage_of(record.confirm),
        revert=stage_of(record.revert),
    )
    row = row_of(seen)
    words = f"{row.why}; {words_of(server)}"
    match row.move:
        case Move.DONE:
            return done(f"{size.name}: {words}")
        case Move.WAIT:
            return running(words)
        case Move.ASK:
            return _unseen(job, mark, words)
        case Move.CONFIRM:
            return _confirm(job, server)
        case Move.REVERT:
            return _revert(job, server, row.why)
        case Move.FAILED:
            return _failed(job, server, record, row)
        case _:
            assert_never(row.move)


def begin(job: Job, server: Server) -> Progress:
    """Mark the server and ask for the resize: never the one without the other."""
    size = wanted(job)
    if not idle(server):
        return for_verb(job, server, words_of(server))
    if job.nova.acts(server.id) is None:
        return failed(
            f"{job.op.kind}: flavor: Nova does not tell what is done to a server"
            " (os-instance-actions): whose resize waits to be confirmed could not be known"
        )
    sent = job.of(RESIZE)
    mark = replace(job.mark(before=newest(job, server)), kind=KIND)
    try:
        job.nova.mark(server.id, mark.written())
    except YaffleError:
        # Whether the mark is there or not: nothing has been asked for.
        sent.nothing_sent()
        raise
    # Where it is not said, Nova takes it that the disk is not to grow with the flavor.
    disk = "AUTO" if job.target.spec.get("auto_disk_config", True) else "MANUAL"
    return ask(sent, server, {"resize": {"flavorRef": size.id, "OS-DCF:diskConfig": disk}})


def _older(server: Server) -> Mark | None:
    """Return the mark of an earlier operation on this node whose resize was left unconfirmed."""
    mark = mark_of(server.metadata) if server.status == VERIFY else None
    return mark if mark is not None and mark.kind == KIND else None


def _record(job: Job, server: Server, mark: Mark | None) -> Record:
    """Return what Nova has recorded of our resize, with the events of each act."""
    if mark is None:
        return Record()
    nova = job.nova
    found = record_of(nova.acts(server.id) or (), mark.before, nova.client.user_id)
    if not idle(server):
        return found

    def looked(act: Action | None) -> Action | None:
        known = act is not None and act.request_id
        return (nova.act(server.id, known) or act) if known else act

    return Record(
        resize=looked(found.resize), confirm=looked(found.confirm), revert=looked(found.revert)
    )


def _unseen(job: Job, mark: Mark | None, words: str) -> Progress:
    """Say whether a resize that Nova has no record of may still be on its way."""
    sent = job.of(RESIZE)
    begun = mark is not None or sent.sent is not None
    if begun and not sent.refused and sent.waited_s(mark) < SETTLE_S:
        return running(f"begun, and nothing to be seen of it yet; {words}")
    return absent(f"flavor: {words}")


def _confirm(job: Job, server: Server) -> Progress:
    sent = job.of(CONFIRM)
    if sent.sent is not None and sent.waited_s(None) < SETTLE_S:
        return running(f"its confirmation was asked for; {words_of(server)}")
    try:
        with sent.sending(server.id):
            answer = job.nova.do(server.id, {CONFIRM: None}, trace=job.trace)
    except (BadRequest, Conflict) as error:
        # Confirmed by somebody else this very moment, or it has to wait: the next look says.
        return running(f"not confirmed yet: {error}")
    except Forbidden as error:
        return _revert(job, server, str(error))
    sent.accepted(server.id, answer.request_id)
    return running(f"resized, and confirmed ({answer.request_id})")


def _revert(job: Job, server: Server, why: str) -> Progress:
    """Go back to the old flavor, for the new one cannot be kept."""
    sent = job.of(REVERT)
    if sent.sent is not None and sent.waited_s(None) < SETTLE_S:
        return running(f"its return was asked for; {words_of(server)}")
    try:
        with sent.sending(server.id):
            answer = job.nova.do(server.id, {REVERT: None}, trace=job.trace)
    except (BadRequest, Forbidden) as error:
        return failed(f"{job.op.kind}: resized, but not confirmed ({why}), nor reverted ({error})")
    except Conflict as error:
        return running(f"not confirmed ({why}), and not reverted yet: {error}")
    sent.accepted(server.id, answer.request_id)
    return running(f"not confirmed ({why}): reverted ({answer.request_id})")


def _told(job: Job, server: Server, request_id: str) -> str:
    act = parts.told(job.nova, server.id, request_id)
    return wrong_with(act) if act is not None else ""


def _failed(job: Job, server: Server, record: Record, row: Row) -> Progress:
    """Say why, in Nova's words, once a second look has shown the same."""
    again = job.nova.show(server.id)
    if again is None or (again.updated, again.task_state) != (server.updated, server.task_state):
        return running(f"something is changing: {words_of(again or server)}")
    asked = (record.resize, record.confirm, record.revert)
    reasons = [_told(job, server, act.request_id) for act in asked if act and act.request_id]
    said = "; ".join([*filter(None, reasons), words_of(server)])
    return failed(f"{job.op.kind}: flavor: {row.why}: {said}")
