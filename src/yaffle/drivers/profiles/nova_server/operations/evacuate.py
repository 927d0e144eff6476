"""EVACUATE: the same server on another host, only when Nova has lost the one that it was on.

Order: Nova must believe the host dead; it is forced down, so that it stays so; the server is marked
with the host that it leaves; then it is asked for. Nova names another host once the server is there,
and not before: that counts, whatever became of the requests. What arrives switched off is switched
on. A move that failed leaves the server on the dead host, and is asked for again.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from yaffle.drivers.profiles.nova_server.api.nova import EVACUATE as VERSION
from yaffle.drivers.profiles.nova_server.operations.create import facts_of
from yaffle.drivers.profiles.nova_server.operations.inplace import ask, find, leave_mark, own
from yaffle.drivers.profiles.nova_server.operations.rebuild import switched_on
from yaffle.drivers.profiles.nova_server.tracking.action_progress import judge, wrong_with
from yaffle.drivers.profiles.nova_server.tracking.operation import (
    ABSENT,
    SETTLE_S,
    ServerOperation,
    Todo,
    barred,
    done,
    failed,
    running,
    taken_up,
    told,
)
from yaffle.drivers.profiles.nova_server.tracking.stuck_tasks import for_move
from yaffle.drivers.profiles.nova_server.tracking.verbs import Verb, idle, runs
from yaffle.errors import BadRequest
from yaffle.integrations.openstack.servers.status_mapping import words_of
from yaffle.model.operations import Progress, ProgressState

if TYPE_CHECKING:
    from yaffle.drivers.profiles.nova_server.api.documents import Server
    from yaffle.drivers.profiles.nova_server.tracking.ownership_tags import Mark

ACT: Final = "evacuate"
TRIES: Final = 3
_VERB: Final = Verb(act=ACT, body=lambda _: {}, reached=runs, by_state=False, starts=True)


def submit(job: ServerOperation) -> Progress:
    """Begin it, unless it has been begun, or the host is not lost."""
    server = own(job)
    if isinstance(server, Progress):
        return server
    # First: what is begun now gives it a source that it is not to leave before.
    source = _source(job, server)
    return replace(taken_up(_follow(job, server)), left_host=source)


def poll(job: ServerOperation) -> Progress:
    """Say how far it is; ABSENT also where it failed, or arrived off: there is more to begin."""
    server = own(job)
    if isinstance(server, Progress):
        return server
    return replace(told(_follow(job, server)), left_host=_source(job, server))


def _source(job: ServerOperation, server: Server) -> str:
    """Return the host that it is to leave, where that was known: a server in ERROR bears no mark."""
    if (mark := job.marked(server)) is not None:
        return mark.source
    sent = job.sent_about(server.id)
    return sent.host if sent is not None else ""


def _begin(job: ServerOperation, server: Server) -> Progress:
    refused = _prepared(job, server)
    if refused is not None:
        return refused
    leave_mark(job, server, source=server.host or "")
    return _ask(job, server)


def _prepared(job: ServerOperation, server: Server) -> Progress | None:
    """Make sure that the host is dead to Nova, and stays so; return why not, if not."""
    if locked := barred(job, server):
        return locked
    services = job.nova.services()
    if services is None or not server.host:
        return failed("EVACUATE: only an administrator may see hosts and move servers off them")
    service = services.get(server.host)
    if service is None:
        return failed(f"EVACUATE: Nova knows no nova-compute on {server.host}")
    if service.up:
        return failed(f"EVACUATE: Nova says that host {server.host} is up: nothing was moved")
    if not service.forced_down:
        job.nova.force_down(service)
    # Nova moves nothing with a task, and of what a host died over it never forgets one by itself.
    return None if idle(server) else for_move(job, server)


def _ask(job: ServerOperation, server: Server) -> Progress:
    host = job.op.params.get("host")
    body = {"evacuate": {"host": host} if host else {}}
    try:
        return ask(job, server, body, version=VERSION)
    except BadRequest as error:
        if "still in use" not in str(error):
            raise
        # Not every part of Nova has heard yet that the host is dead; nothing has been moved.
        return running(f"later, for Nova takes its host for alive: {error}")


def _follow(job: ServerOperation, server: Server) -> Progress | Todo:
    """Say how far it is, or what is to be begun of it."""
    mark, source = job.marked(server), _source(job, server)
    if source and server.host not in (None, "", source):
        return _arrived(job, server)
    if job.refused or (mark is None and job.sent is None):
        return Todo(ABSENT.detail, lambda: _begin(job, server))
    act = find(job, ACT, server, mark)
    if act is not None and idle(server) and wrong_with(act):
        return _again(job, server, mark, wrong_with(act))
    judged = judge(_VERB, server, act, waited_s=job.waited_s(mark))
    if judged.state is ProgressState.ABSENT:
        return Todo(judged.detail, lambda: _begin(job, server))
    if judged.state is not ProgressState.DONE:
        return judged
    if source and server.host == source:
        return _again(job, server, mark, f"it is still on {source}")
    if act is None or act.events is None:
        return failed(f"EVACUATE: nothing tells that it was moved; {words_of(server)}")
    return switched_on(job, server, _there(job, server))


def _arrived(job: ServerOperation, server: Server) -> Progress | Todo:
    """Say how far a server is that has left the host it was marked with."""
    if not idle(server):
        return running(words_of(server))
    if server.status == "ERROR":
        return failed(f"EVACUATE: it is on {server.host}, but {words_of(server)}")
    return switched_on(job, server, _there(job, server))


def _there(job: ServerOperation, server: Server) -> Progress:
    arrived = done(f"runs on {server.host}; {words_of(server)}")
    return replace(arrived, attributes=facts_of(server, job.facts))


def _again(job: ServerOperation, server: Server, mark: Mark | None, why: str) -> Progress | Todo:
    """Have it asked for once more: a move that failed has left the server where it was."""
    acts = job.nova.acts(server.id)
    if acts is None:
        if job.waited_s(mark) < SETTLE_S:
            return running(f"asked for; {why}; {words_of(server)}")
        return failed(f"EVACUATE: {why}, and Nova does not tell how often that was tried")
    since = takewhile(lambda act: mark is None or act.request_id != mark.before, acts)
    tried = sum(act.action == ACT for act in since)
    if tried >= TRIES:
        return failed(f"EVACUATE failed {tried} times, last: {why}; {words_of(server)}")
    return Todo(
        f"to be asked for again: {why}", lambda: _prepared(job, server) or _ask(job, server)
    )
