"""Servers whose task moves no more: who may be at it all the same, and how Nova is made to forget it.

Until Nova forgets the task it ignores another request for a deletion, and refuses (409) most others.
A deletion that stands still is begun anew by whoever deletes, and undone by nobody: what a user has
asked for is finished or left alone. Any other task is forgotten for the verb that is to heal the
server; nothing of the server is lost by that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from yaffle.drivers.profiles.nova_server.tracking.operation import failed, running
from yaffle.errors import Forbidden
from yaffle.integrations.openstack.servers.action_attribution import newest_of
from yaffle.integrations.openstack.servers.status_mapping import RUNNING, words_of
from yaffle.integrations.openstack.servers.stuck_tasks import task_of

if TYPE_CHECKING:
    from yaffle.drivers.profiles.nova_server.api.documents import Server
    from yaffle.drivers.profiles.nova_server.api.nova import Nova
    from yaffle.drivers.profiles.nova_server.tracking.operation import ServerOperation
    from yaffle.integrations.openstack.servers.stuck_tasks import Stuck
    from yaffle.model.operations import Progress

log = structlog.get_logger(__name__)

DELETING: Final = frozenset({"deleting", "soft-deleting"})
MOVING: Final = frozenset({"evacuate", "live-migration", "migrate", "resize", "unshelve"})
"""Acts that take a server to another host, and may go on there."""
SHELVED: Final = frozenset({"SHELVED", "SHELVED_OFFLOADED"})
"""Only out of these does Nova bring a server back from its image."""
UNTOLD: Final = (
    "Nova does not tell who is at it (os-instance-actions and its events): left alone; have an"
    " administrator look, or let Yaffle's user read them"
)


def at_work(nova: Nova, ident: str, stuck: Stuck) -> str:
    """Say which host is at what is being done to a server, or that Nova does not tell; else nothing.

    What we are not told is never taken for "nobody", however long it lasts.
    """
    if not stuck.may_work:
        return ""
    newest = newest_of(nova.acts(ident) or ())
    if newest is None:
        # Every server was made by somebody: a record that lacks that is not all of it.
        return UNTOLD
    act = nova.act(ident, newest.request_id) if newest.request_id else None
    if act is None or act.events is None:
        return UNTOLD
    begun = [event for event in act.events if event.result is None]
    if not begun or not stuck.patient:
        return ""
    host = begun[0].host or "its host"
    return (
        f"{host} has begun it ({begun[0].event}) and not ended: left alone; if nothing works there,"
        " restart its nova-compute"
    )


def for_deletion(job: ServerOperation, server: Server, stuck: Stuck) -> Progress | None:
    """Have Nova forget a deletion that nobody works on; return why not, if it does not."""
    return _forgotten(job, server, stuck.why, "error")


def for_verb(job: ServerOperation, server: Server, why_not: object) -> Progress:
    """Say how it stands with a verb that Nova refuses because something else is being done.

    Where that moves no more, Nova is made to forget it, and the verb is asked for once more.
    """
    stuck = job.tasks.stuck(server)
    if stuck is None:
        return running(f"later, for something else is being done to it: {why_not}")
    if server.task_state in DELETING:
        return failed(f"{job.op.kind}: {stuck.why}: what is to be deleted is not healed: {why_not}")
    if work := at_work(job.nova, server.id, stuck):
        return running(f"later, {stuck.why}, but {work}")
    return _forgotten_to_heal(job, server, stuck.why)


def for_move(job: ServerOperation, server: Server) -> Progress:
    """Say how it stands with a server that is to leave a dead host, and was not idle when that died.

    What only that host could go on with, nobody will: Nova is made to forget it. What may be done
    to it elsewhere, by Nova's record or where that tells nothing, goes on.
    """
    task, words = task_of(server), words_of(server)
    if server.task_state in DELETING:
        return failed(f"{job.op.kind}: what is to be deleted is not moved: {words}")
    acts = job.nova.acts(server.id)
    newest = newest_of(acts) if acts is not None else None
    moves = acts is None or (newest is not None and newest.action in MOVING)
    if moves or task is None or task.endless or server.status == "BUILD":
        return running(f"later, for something else is being done to it: {words}")
    return _forgotten_to_heal(job, server, f"its host {server.host} died amid {server.task_state}")


def _forgotten_to_heal(job: ServerOperation, server: Server, why: str) -> Progress:
    if server.status in SHELVED:
        return failed(
            f"{job.op.kind}: {why}; reset, it would be {words_of(server)} no more, and with that lose"
            " the way back to its disk: whether it is to be is for a person to choose"
        )
    # Nova's word for it until its next look at the hypervisor, so the hypervisor's last one counts.
    state = "active" if server.power_state == RUNNING else "error"
    return _forgotten(job, server, why, state) or running(f"{why}: Nova has forgotten it")


def _forgotten(job: ServerOperation, server: Server, why: str, state: str) -> Progress | None:
    try:
        job.nova.reset_state(server.id, state)
    except Forbidden as error:
        return failed(
            f"{job.op.kind}: {why}, and Nova does nothing else until it is reset, which takes"
            f" the role admin. Have an administrator say `openstack server set --state {state}"
            f" {server.id}` or restart nova-compute on its host, or give Yaffle's user that role"
            f" ({error})"
        )
    job.tasks.forget(server.id)
    log.warning("task of Nova reset", server=server.id, was=words_of(server), why=why)
    return None
