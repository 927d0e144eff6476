"""DELETE and KILL: over only when Nova says that the host itself has ended the guest.

A server whose host does not report is deleted by Nova in its own records alone, at once, while the
guest may run on; "not found" is then no proof of anything. Nova's record of the act tells the two
apart, also after the server is gone: the host leaves an event in it, a deletion without a host none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from yaffle.drivers.profiles.nova_server.documents import Action
from yaffle.drivers.profiles.nova_server.job import (
    ABSENT,
    Job,
    done,
    failed,
    running,
    stranger,
)
from yaffle.drivers.profiles.nova_server.judging import ERROR, SUCCESS, wrong_with
from yaffle.drivers.profiles.nova_server.mapping import words_of
from yaffle.drivers.profiles.nova_server.verbs import KILL
from yaffle.errors import NotFound
from yaffle.model.operations import Progress, ProgressState

if TYPE_CHECKING:
    from yaffle.drivers.profiles.nova_server.documents import Server

ENDED: Final = frozenset({"compute_terminate_instance", "compute_soft_delete_instance"})
"""What a host writes when it has destroyed a guest, or switched it off to be destroyed later."""
BUILT: Final = "compute__do_build_and_run_instance"
"""What a host writes when it makes one."""
REVIVING: Final = frozenset({"restore"})
"""After these, what a host did before counts no more."""
SHELVING: Final = frozenset({"shelveOffload", "unshelve"})
MOVING: Final = frozenset({"evacuate", "live-migration", "migrate", "resize", "unshelve"})
HARMLESS: Final = frozenset({"create", "delete", "lock", "unlock"})
"""Acts that make no guest run, the building itself apart."""
DELETING: Final = frozenset({"deleting", "soft-deleting"})
_RECENT_S: Final = 5.0
_ACTS_MAX: Final = 3
"""The acts of a deleted server whose events are read, the newest ones."""


def submit(job: Job) -> Progress:
    """Ask for the deletion of the node's copy; without a copy's id, of every one with its mark."""
    return _every(job, act=True)


def poll(job: Job) -> Progress:
    """Say how far it is; moves on from where Nova would keep the server for a while."""
    return _every(job, act=False)


def _every(job: Job, *, act: bool) -> Progress:
    idents = [job.target.physical_id] if job.target.physical_id else _marked(job)
    if not idents:
        return done("there is no such server, and none bears the mark of this node")
    found = [_one(job, ident, act=act) for ident in idents]
    for state in (ProgressState.FAILED, ProgressState.ABSENT, ProgressState.RUNNING):
        for progress in found:
            if progress.state is state:
                return progress
    return replace(found[0], detail="; ".join(progress.detail for progress in found))


def _marked(job: Job) -> list[str]:
    snapshot = job.census.take(job.nova, full=True)
    return [server.id for server in snapshot.copies_of(job.target.node_id)]


def _one(job: Job, ident: str, *, act: bool) -> Progress:
    server = job.nova.show(ident)
    if server is None or server.status == "DELETED":
        return ended(job, ident)
    if why := stranger(server, job.target):
        return failed(f"{job.op.kind}: {why}")
    if server.task_state in DELETING:
        return running(f"it is being deleted: {words_of(server)}")
    if not act and server.status != "SOFT_DELETED":
        return _standing(job, server)
    if why := host_lost(job, server):
        return failed(f"{job.op.kind}: {why}")
    force = job.op.kind == KILL or server.status == "SOFT_DELETED"
    try:
        with job.sending(ident, host=server.host or ""):
            answer = job.nova.delete(ident, force=force, trace=job.trace)
    except NotFound:
        return ended(job, ident)
    job.accepted(ident, answer.request_id, host=server.host or "")
    return running(f"{'forced ' if force else ''}deletion accepted ({answer.request_id})")


def _standing(job: Job, server: Server) -> Progress:
    """Say why a server is still there that nobody seems to be deleting."""
    sent = job.sent
    if sent is None:
        return ABSENT
    record = job.nova.act(server.id, sent.request_id) if sent.request_id else None
    if record is not None and (wrong := wrong_with(record)):
        return failed(f"{job.op.kind} failed: {wrong}; {words_of(server)}")
    if job.waited_s(None) < _RECENT_S:
        return running(f"not begun yet: {words_of(server)}")
    return ABSENT


def host_lost(job: Job, server: Server) -> str:
    """Say why deleting a server would prove nothing; empty where it would, or we are not told.

    Nova would forget it at once, and with it where its guest may still be running.
    """
    if not server.host or server.host_status not in ("DOWN", "UNKNOWN"):
        return ""
    services = job.nova.services()
    service = services.get(server.host) if services else None
    if service is None or service.up or service.forced_down:
        return ""
    return (
        f"its host {server.host} is down, so that Nova would only forget the server while its guest"
        " may still run there; fence the host and force it down in Nova, or evacuate the server"
    )


def ended(job: Job, ident: str) -> Progress:
    """Say what Nova's record proves of a server that Nova does not know any more."""
    acts = job.nova.acts(ident)
    if acts is None:
        return _proved(job, f"Nova knows no server {ident}, and nothing that was done to one")
    last = len(acts) - 1
    looked = [
        _with_events(job, ident, act) if place < _ACTS_MAX or place == last else act
        for place, act in enumerate(acts)
    ]
    verdict, detail = proof(looked)
    if verdict is None:
        return running(f"server {ident}: {detail}")
    if verdict:
        return _proved(job, f"server {ident} is gone: {detail}")
    if where := _forced_down(job, acts):
        return _proved(job, f"server {ident} is gone from Nova, and its host {where} forced down")
    return failed(f"{job.op.kind}: server {ident} is gone from Nova, but {detail}")


def _with_events(job: Job, ident: str, act: Action) -> Action:
    return (act.request_id and job.nova.act(ident, act.request_id)) or act


def proof(acts: Sequence[Action]) -> tuple[bool | None, str]:
    """Say whether the record of a deleted server proves that its guest has ended; None: not yet.

    `acts`: the newest first, with their events as far as they were asked for.
    """
    if all(act.events is None for act in acts):
        return True, "Nova knows it no more (what its host did is not shown to us)"
    for act in acts:
        if act.action in REVIVING:
            break
        for event in act.events or ():
            if event.event in ENDED and event.result == SUCCESS:
                return True, f"{event.event} succeeded on {event.host or 'its host'}"
            if event.event in ENDED and event.result is None:
                return None, "its host has not finished yet"
    if _never_ran(acts):
        return True, "no host had ever built it"
    shelved = next((act.action for act in acts if act.action in SHELVING), "")
    if shelved == "shelveOffload":
        return True, "it was shelved, on no host"
    return False, "its host has never confirmed that the guest has ended"


def _never_ran(acts: Sequence[Action]) -> bool:
    """Whether a server was only ever made and deleted, and each host that tried to build it failed."""
    if acts[-1].action != "create" or any(act.action not in HARMLESS for act in acts):
        return False
    tries = [event for event in acts[-1].events or () if event.event == BUILT]
    return acts[-1].events is not None and all(event.result == ERROR for event in tries)


def _forced_down(job: Job, acts: Sequence[Action]) -> str:
    """Return the host that the copy was on, if somebody has told Nova that this host is dead.

    Where we did not see it there ourselves it is where it was built, unless it was ever moved.
    """
    host = job.sent.host if job.sent is not None else ""
    if not host and not any(act.action in MOVING for act in acts):
        host = str(job.target.attributes.get("host", ""))
    services = job.nova.services() if host else None
    service = services.get(host) if services else None
    return host if service is not None and service.forced_down else ""


def _proved(job: Job, detail: str) -> Progress:
    method = "nova-force-delete" if job.op.kind == KILL else "nova-delete"
    return replace(done(detail), method=f"{method}+instance-actions")
