"""Verbs that leave a copy where it is: look, mark, act; whoever polls reads what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from yaffle.drivers.profiles.nova_server.tracking.action_progress import act_after, judge
from yaffle.drivers.profiles.nova_server.tracking.operation import (
    ABSENT,
    SETTLE_S,
    ServerOperation,
    away,
    barred,
    done,
    failed,
    running,
    stranger,
)
from yaffle.drivers.profiles.nova_server.tracking.ownership_tags import MARKABLE, Mark
from yaffle.drivers.profiles.nova_server.tracking.stuck_tasks import for_verb
from yaffle.drivers.profiles.nova_server.tracking.verbs import (
    HOSTLESS,
    START,
    VERBS,
    Verb,
    idle,
    overrules,
)
from yaffle.errors import Conflict
from yaffle.integrations.openstack import CloudUnavailable
from yaffle.integrations.openstack.servers.documents import Action
from yaffle.integrations.openstack.servers.queries import READ
from yaffle.integrations.openstack.servers.status_mapping import about_to_stop, words_of
from yaffle.model.ids import OperationId
from yaffle.model.operations import Progress, ProgressState

if TYPE_CHECKING:
    from yaffle.drivers.profiles.nova_server.api.documents import Server


def submit(job: ServerOperation) -> Progress:
    """Begin one of `VERBS`, unless it has been begun, or there is nothing to do."""
    verb = VERBS[job.op.kind]
    server = own(job)
    if isinstance(server, Progress):
        return server
    begun = follow(job, verb, server)
    if begun.state is not ProgressState.ABSENT:
        return begun
    if verb.by_state and verb.reached(server):
        return done(f"nothing to do: {words_of(server)}")
    if refused := barred(job, server) or _unheard(job, server):
        return refused
    body = verb.body(job.op.params)
    if job.tasks.stuck(server) is None or overrules(body, server):
        leave_mark(job, server)
    # Nova stamps a server that is written on, and a task that stands still would look like one that
    # has moved. What Nova refuses while it stands begins nothing, and has nothing to be marked.
    return ask(job, server, body)


def ask(
    job: ServerOperation, server: Server, body: Mapping[str, object], *, version: str = READ
) -> Progress:
    """Ask Nova for the act; what it refuses while it does something else is asked for again later."""
    if refused := barred(job, server) or _unheard(job, server):
        return refused
    try:
        with job.sending(server.id, host=server.host or ""):
            answer = job.nova.do(server.id, body, version=version, trace=job.trace)
    except Conflict as error:
        if not idle(server):
            return for_verb(job, server, error)
        if job.op.kind == START and _for_a_moment(job, server, error):
            return running(f"later, once Nova has written down that it is off: {error}")
        raise
    job.accepted(server.id, answer.request_id)
    return running(f"{job.op.kind} accepted ({answer.request_id})")


def _unheard(job: ServerOperation, server: Server) -> Progress | None:
    """Refuse what a host that is away would hear of once it is back: a reboot or rebuild of what is well.

    Nova asks most of its acts of a host without looking whether it is up, and the request is kept.
    """
    how = "" if job.op.kind in HOSTLESS else away(job, server)
    if not how:
        return None
    return failed(
        f"{job.op.kind}: its host {server.host} {how}, so that Nova would keep the request until that"
        " host is back, whatever the server is by then; get the host up, or evacuate the server"
    )


def _for_a_moment(job: ServerOperation, server: Server, error: Conflict) -> bool:
    """Whether a start is refused only because Nova has not stopped the server of a guest that is off.

    Mostly that follows within milliseconds. It may not follow for minutes: where the host has died in
    between, or an image is being taken. Then it is time for the next rung.
    """
    if server.task_state is not None or not about_to_stop(server) or "vm_state" not in str(error):
        return False
    now_s = job.clock.monotonic_s()
    asked = OperationId(f"{job.operation_id} too early")
    return now_s - job.memory.trying(asked, now_s) < SETTLE_S


def poll(job: ServerOperation) -> Progress:
    """Say how far it is."""
    server = own(job)
    return server if isinstance(server, Progress) else follow(job, VERBS[job.op.kind], server)


def own(job: ServerOperation) -> Server | Progress:
    """Return the node's server, or why there is nothing to act on."""
    ident = job.target.physical_id
    server = job.nova.show(ident) if ident else None
    if server is None:
        return failed(f"{job.op.kind}: there is no server {ident}")
    why = stranger(server, job.target)
    return failed(f"{job.op.kind}: {why}") if why else server


def leave_mark(job: ServerOperation, server: Server, *, source: str = "") -> None:
    """Write on the server what is about to be done to it, where Nova lets that be written.

    A server in ERROR cannot be marked. What can be done to it there either has a goal that can be
    seen, or is a reboot, which a successor that finds no trace does once more.
    """
    if server.status not in MARKABLE:
        return
    mark = job.mark(before=newest(job, server), source=source)
    try:
        job.nova.mark(server.id, mark.written())
    except Conflict:
        # Locked, or just changing: the act itself will be told the same, with a better word.
        return
    except CloudUnavailable:
        # Whether the mark is there or not: nothing has been asked for.
        job.nothing_sent()
        raise


def newest(job: ServerOperation, server: Server) -> str:
    """Return the request id of the newest act on a server; empty where Nova tells none."""
    return id_of_newest(job.nova.acts(server.id) or ())


def id_of_newest(acts: Sequence[Action]) -> str:
    """Return the request id of the newest of them; they come newest first."""
    return (acts[0].request_id or "") if acts else ""


def follow(job: ServerOperation, verb: Verb, server: Server) -> Progress:
    """Say how far this operation is on its server; ABSENT where that bears no trace of it."""
    mark = job.marked(server)
    if job.refused or (mark is None and job.sent is None):
        return ABSENT
    act = find(job, verb.act, server, mark)
    if act is not None and not verb.by_state and untold(job, act):
        # What the server is says nothing: it was so before.
        if job.waited_s(mark) < SETTLE_S:
            return running(f"begun, as far as is known; {words_of(server)}")
        return failed(f"{job.op.kind}: Nova does not tell whether it was begun; {words_of(server)}")
    return judge(verb, server, act, waited_s=job.waited_s(mark))


def untold(job: ServerOperation, act: Action) -> bool:
    """Whether neither Nova's record nor an answer of its says that the act was begun."""
    return act.request_id is None and not (job.sent is not None and job.sent.request_id)


def find(job: ServerOperation, name: str, server: Server, mark: Mark | None) -> Action | None:
    """Return Nova's record of what this operation asked for, its events included.

    Where Nova tells us of no acts at all, one of which no events are told: by the server's state alone
    it is judged then. To take it for never begun would begin it again and again.
    """
    sent = job.sent
    request_id = sent.request_id if sent is not None else ""
    if request_id and (act := job.nova.act(server.id, request_id)) is not None:
        return act
    if not request_id and mark is None:
        return None
    acts = job.nova.acts(server.id)
    if acts is None:
        return Action(action=name)
    if request_id:
        # A cloud may list acts and show none of them in full.
        return next((act for act in acts if act.request_id == request_id), None)
    seen = act_after(acts, name, mark.before if mark else "", job.nova.client.user_id)
    if seen is None or not seen.request_id:
        return None
    return job.nova.act(server.id, seen.request_id) or seen
