"""The flavor of a server that is updated: a resize of Nova's, confirmed once it has come about.

The server is marked before the resize is asked for: in VERIFY_RESIZE and amid its tasks Nova takes
no metadata. What is to be done next says `resize_table.py`. A server that was off stays off. The
confirmation gives up the old disk: it is begun as the resize is, by a submit, and what cannot be
confirmed is left to a person.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, assert_never

from yaffle.drivers.profiles.nova_server.api import server_parts
from yaffle.drivers.profiles.nova_server.operations.inplace import ask, id_of_newest
from yaffle.drivers.profiles.nova_server.operations.resize_table import (
    CONFIRM,
    RESIZE,
    VERIFY,
    Move,
    Record,
    Row,
    Seen,
    record_of,
    row_of,
    stage_of,
)
from yaffle.drivers.profiles.nova_server.tracking.action_progress import wrong_with
from yaffle.drivers.profiles.nova_server.tracking.operation import (
    SETTLE_S,
    UNTOLD,
    absent,
    done,
    failed,
    running,
)
from yaffle.drivers.profiles.nova_server.tracking.stuck_tasks import for_verb
from yaffle.drivers.profiles.nova_server.tracking.verbs import idle
from yaffle.errors import BadRequest, Conflict, Forbidden, YaffleError
from yaffle.integrations.openstack.servers.status_mapping import words_of
from yaffle.model.ids import OperationId

if TYPE_CHECKING:
    from yaffle.drivers.profiles.nova_server.api.documents import Server
    from yaffle.drivers.profiles.nova_server.api.server_parts import Size
    from yaffle.drivers.profiles.nova_server.tracking.operation import ServerOperation
    from yaffle.drivers.profiles.nova_server.tracking.ownership_tags import Mark
    from yaffle.integrations.openstack.servers.documents import Action
    from yaffle.model.operations import Progress

KIND: Final = "RESIZE"
"""What the mark says."""


def wanted(job: ServerOperation) -> Size:
    """Return the flavor that the server is to have."""
    return server_parts.size(job.nova, job.flavor(job.target.spec["flavor"]))


def stands(job: ServerOperation, server: Server, mark: Mark | None) -> Progress:
    """Say how far it is; ABSENT where it is to be asked for, or to be confirmed."""
    size = wanted(job)
    record = _record(job, server, mark)
    if record is None:
        return running(f"flavor: {UNTOLD}; {words_of(server)}")
    seen = Seen(
        status=server.status,
        idle=idle(server),
        fits=size.is_of(server),
        told=record.explained_by(server.fault) or _never_told(job, server),
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
            return _to_confirm(job, words)
        case Move.FAILED:
            return _failed(job, server, record, row)
        case _:
            assert_never(row.move)


def begin(job: ServerOperation, server: Server) -> Progress:
    """Confirm the resize that `stands` has just called to be confirmed; else begin it.

    Mark the server and ask for the resize: never the one without the other.
    """
    size = wanted(job)
    if not idle(server):
        return for_verb(job, server, words_of(server))
    if server.status == VERIFY:
        return _confirm(job, server)
    acts = job.nova.acts(server.id)
    if acts is None:
        return failed(
            f"{job.op.kind}: flavor: {UNTOLD}: whose resize waits to be confirmed could not be known"
        )
    sent = job.of(RESIZE)
    mark = replace(job.mark(before=id_of_newest(acts)), kind=KIND)
    try:
        job.nova.mark(server.id, mark.written())
    except YaffleError:
        # Whether the mark is there or not: nothing has been asked for.
        sent.nothing_sent()
        raise
    # Where it is not said, Nova takes it that the disk is not to grow with the flavor.
    disk = "AUTO" if job.target.spec.get("auto_disk_config", True) else "MANUAL"
    return ask(sent, server, {"resize": {"flavorRef": size.id, "OS-DCF:diskConfig": disk}})


def _record(job: ServerOperation, server: Server, mark: Mark | None) -> Record | None:
    """Return what Nova has recorded of our resize, with the events of each act.

    None: Nova does not tell. That may pass, and what we are not told is not somebody else's.
    """
    if mark is None:
        return Record()
    nova = job.nova
    acts = nova.acts(server.id)
    if acts is None:
        return None
    found = record_of(acts, mark.before, nova.client.user_id)
    if not idle(server):
        return found

    def looked(act: Action | None) -> Action | None:
        known = act is not None and act.request_id
        return (nova.act(server.id, known) or act) if known else act

    return Record(
        resize=looked(found.resize), confirm=looked(found.confirm), revert=looked(found.revert)
    )


def _unseen(job: ServerOperation, mark: Mark | None, words: str) -> Progress:
    """Say whether a resize that Nova has no record of may still be on its way."""
    sent = job.of(RESIZE)
    begun = mark is not None or sent.sent is not None
    if begun and not sent.refused and sent.waited_s(mark) < SETTLE_S:
        return running(f"begun, and nothing to be seen of it yet; {words}")
    return absent(f"flavor: {words}")


def _to_confirm(job: ServerOperation, words: str) -> Progress:
    """Say whether a confirmation that Nova has no record of may still be on its way."""
    sent = job.of(CONFIRM)
    if sent.sent is not None and sent.waited_s(None) < SETTLE_S:
        return running(f"its confirmation was asked for; {words}")
    return absent(f"flavor: {words}")


def _confirm(job: ServerOperation, server: Server) -> Progress:
    sent = job.of(CONFIRM)
    try:
        with sent.sending(server.id):
            answer = job.nova.do(server.id, {CONFIRM: None}, trace=job.trace)
    except (BadRequest, Conflict) as error:
        # Confirmed by somebody else this very moment, or it has to wait: the next look says.
        return running(f"resized, and not confirmed yet: {error}")
    except Forbidden as error:
        why = f"{job.op.kind}: flavor: resized, and not confirmed ({error})"
        return failed(f"{why}: {_for_a_person(server)}")
    sent.accepted(server.id, answer.request_id)
    return running(f"resized, and confirmed ({answer.request_id})")


def _for_a_person(server: Server) -> str:
    return (
        f"a person has to confirm or revert it (openstack server resize confirm|revert {server.id})"
    )


def _never_told(job: ServerOperation, server: Server) -> bool:
    """Whether Nova has not said for long why a server is in ERROR: its host may have died over that."""
    if server.status != "ERROR":
        return False
    now_s = job.clock.monotonic_s()
    asked = OperationId(f"{job.operation_id} why")
    return now_s - job.memory.trying(asked, now_s) >= SETTLE_S


def _told(job: ServerOperation, server: Server, request_id: str) -> str:
    act = server_parts.told(job.nova, server.id, request_id)
    return wrong_with(act) if act is not None else ""


def _failed(job: ServerOperation, server: Server, record: Record, row: Row) -> Progress:
    """Say why, in Nova's words, once a second look has shown the same."""
    again = job.nova.show(server.id)
    if again is None or (again.updated, again.task_state) != (server.updated, server.task_state):
        return running(f"something is changing: {words_of(again or server)}")
    asked = (record.resize, record.confirm, record.revert)
    reasons = [_told(job, server, act.request_id) for act in asked if act and act.request_id]
    # Which may know by now why it failed: that is written before its act ends.
    said = "; ".join([*filter(None, reasons), words_of(again)])
    told = f"{job.op.kind}: flavor: {row.why}: {said}"
    return failed(f"{told}: {_for_a_person(server)}" if server.status == VERIFY else told)
