"""DELETE and KILL: over only when Nova says that the host itself has ended the guest.

That it is not found proves nothing: `integrations/openstack/servers/termination_proof.py` says what does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from yaffle.drivers.profiles.nova_server.status.powered_off_hosts import held_dead, is_off
from yaffle.drivers.profiles.nova_server.status.reading import project_of
from yaffle.drivers.profiles.nova_server.tracking.action_progress import wrong_with
from yaffle.drivers.profiles.nova_server.tracking.operation import (
    ABSENT,
    FORCED_DOWN,
    UNTOLD,
    ServerOperation,
    away,
    barred,
    done,
    failed,
    over,
    running,
    stranger,
)
from yaffle.drivers.profiles.nova_server.tracking.stuck_tasks import (
    DELETING,
    MOVING,
    at_work,
    for_deletion,
)
from yaffle.drivers.profiles.nova_server.tracking.verbs import KILL
from yaffle.errors import Forbidden, NotFound
from yaffle.integrations.openstack.servers.status_mapping import words_of
from yaffle.integrations.openstack.servers.termination_proof import given_up, proof, with_events
from yaffle.model.operations import Progress, ProgressState

if TYPE_CHECKING:
    from yaffle.drivers.profiles.nova_server.api.documents import Server
    from yaffle.integrations.openstack.servers.documents import Action
    from yaffle.integrations.openstack.servers.stuck_tasks import Stuck

_RECENT_S: Final = 5.0


def submit(job: ServerOperation) -> Progress:
    """Ask for the deletion of the node's copy; without a copy's id, of every one with its mark."""
    return _every(job, act=True)


def poll(job: ServerOperation) -> Progress:
    """Say how far it is.

    One that stands still, or that Nova would keep for a while (SOFT_DELETED), is ABSENT: to ask again is
    a submit, which whoever may stop us guards.
    """
    return _every(job, act=False)


def _every(job: ServerOperation, *, act: bool) -> Progress:
    idents = [job.target.physical_id] if job.target.physical_id else _marked(job)
    if not idents:
        return done("there is no such server, and none bears the mark of this node")
    found = [_one(job, ident, act=act) for ident in idents]
    for state in (ProgressState.FAILED, ProgressState.ABSENT, ProgressState.RUNNING):
        for progress in found:
            if progress.state is state:
                return progress
    return replace(found[0], detail="; ".join(progress.detail for progress in found))


def _marked(job: ServerOperation) -> list[str]:
    snapshot = job.census.take(job.nova, full=True, after_s=job.since_s())
    found = [
        server.id
        for server in snapshot.copies_of(job.target.node_id, project_of(job.target, job.nova))
    ]
    # What we have asked for to be deleted is on no list any more, and not proved to be dead for that.
    asked = job.sent.ident if job.sent is not None else ""
    return [*found, asked] if asked and asked not in found else found


def _one(job: ServerOperation, ident: str, *, act: bool) -> Progress:
    server = job.nova.show(ident)
    if server is None or server.status == "DELETED":
        return ended(job, ident)
    if why := stranger(server, job.target):
        return failed(f"{job.op.kind}: {why}")
    stuck = job.tasks.stuck(server) if server.task_state in DELETING else None
    if server.task_state in DELETING and stuck is None:
        return running(f"it is being deleted: {words_of(server)}")
    if stuck is not None and (work := at_work(job.nova, ident, stuck)):
        return running(f"{stuck.why}, but {work}")
    if not act:
        kept = stuck is not None or server.status == "SOFT_DELETED"
        return ABSENT if kept else _standing(job, server)
    # First whether it is locked: nobody's consent to what cannot be proved is about that.
    # Last whether its host is back, lest it comes back between these questions.
    if refused := barred(job, server) or _on_lost_host(job, server) or over(job, server):
        return refused
    try:
        return _begun(job, server, stuck)
    except NotFound:
        return ended(job, ident)


def _begun(job: ServerOperation, server: Server, stuck: Stuck | None) -> Progress:
    """Ask for the deletion, once Nova has forgotten one that moves no more."""
    ident = server.id
    if stuck is not None and (refused := for_deletion(job, server, stuck)):
        return refused
    force = job.op.kind == KILL or server.status == "SOFT_DELETED"
    with job.sending(ident, host=server.host or "", given_up=given_up(server)):
        answer = job.nova.delete(ident, force=force, trace=job.trace)
    job.tasks.forget(ident)
    job.accepted(ident, answer.request_id)
    return running(f"{'forced ' if force else ''}deletion accepted ({answer.request_id})")


def _standing(job: ServerOperation, server: Server) -> Progress:
    """Say why a server is still there that nobody seems to be deleting."""
    sent = job.sent_about(server.id)
    if sent is None:
        return ABSENT
    record = job.nova.act(server.id, sent.request_id) if sent.request_id else None
    if record is not None and (wrong := wrong_with(record)):
        return failed(f"{job.op.kind} failed: {wrong}; {words_of(server)}")
    if job.clock.monotonic_s() - sent.at_s < _RECENT_S:
        return running(f"not begun yet: {words_of(server)}")
    return ABSENT


def _on_lost_host(job: ServerOperation, server: Server) -> Progress | None:
    """Say why a server on a host that is away is not deleted now; None where it may be.

    One that is proved off is forced down first: then Nova does not wait for that host, and what it
    forgets runs nowhere.
    """
    if is_off(job, server.host):
        return held_dead(job)
    why = host_lost(job, server)
    return failed(f"{job.op.kind}: {why}") if why else None


def host_lost(job: ServerOperation, server: Server) -> str:
    """Say why deleting a server would prove nothing; empty where it would, or no host is shown to us.

    Nova would forget it at once, and with it where its guest may still be running.
    """
    how = away(job, server)
    if how in ("", FORCED_DOWN):
        return ""
    return (
        f"its host {server.host} {how}, so that Nova would only forget the server while its guest"
        " may still run there; fence the host and force it down in Nova, or evacuate the server"
    )


def ended(job: ServerOperation, ident: str) -> Progress:
    """Say what Nova's record proves of a server that Nova does not know any more."""
    try:
        acts = job.nova.history(ident)
    except NotFound:
        return _proved(job, f"Nova knows no server {ident}, and nothing that was done to one")
    except Forbidden as error:
        return failed(f"{job.op.kind}: server {ident} is gone from Nova, but {UNTOLD}: {error}")
    looked = with_events(acts, lambda request: job.nova.act(ident, request))
    sent = job.sent_about(ident)
    verdict, detail = proof(looked, given_up=sent.given_up if sent is not None else "")
    if verdict is None:
        return running(f"server {ident}: {detail}")
    if verdict:
        return _proved(job, f"server {ident} is gone: {detail}")
    if where := _forced_down(job, ident, acts):
        return _proved(job, f"server {ident} is gone from Nova, and its host {where} forced down")
    return failed(f"{job.op.kind}: server {ident} is gone from Nova, but {detail}")


def _forced_down(job: ServerOperation, ident: str, acts: Sequence[Action]) -> str:
    """Return the host that the copy was on, if somebody has told Nova that this host is dead.

    Where we did not see it there ourselves it is where it was built, unless it was ever moved.
    """
    sent = job.sent_about(ident)
    host = sent.host if sent is not None else ""
    if not host and not any(act.action in MOVING for act in acts):
        host = str(job.target.attributes.get("host", ""))
    services = job.nova.services() if host else None
    service = services.get(host) if services else None
    return host if service is not None and service.forced_down else ""


def _proved(job: ServerOperation, detail: str) -> Progress:
    method = "nova-force-delete" if job.op.kind == KILL else "nova-delete"
    return replace(done(detail), method=f"{method}+instance-actions")
