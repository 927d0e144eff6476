"""DELETE: over only when Heat has deleted the stack, and Nova's record proves that its guests have ended.

A server whose host does not report is deleted by Nova in its own records alone, and Heat is content
with that. Which servers a stack ever had is known after it is gone too: Heat keeps the events of
deleted stacks, nested ones included, so that a successor who comes late can ask the same.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from yaffle.drivers.profiles.heat_stack.operations.create import copies
from yaffle.drivers.profiles.heat_stack.operations.operation import (
    ABSENT,
    StackOperation,
    barred,
    done,
    failed,
    running,
)
from yaffle.drivers.profiles.heat_stack.status.members import State, judged, named, of_state
from yaffle.drivers.profiles.heat_stack.status.ownership_tags import stranger
from yaffle.drivers.profiles.heat_stack.status.status_mapping import FAILED
from yaffle.errors import Forbidden, NotFound
from yaffle.integrations.openstack.servers.status_mapping import words_of
from yaffle.integrations.openstack.servers.termination_proof import proof, with_events
from yaffle.model.operations import Progress, ProgressState

if TYPE_CHECKING:
    from yaffle.drivers.profiles.heat_stack.api.documents import Stack
    from yaffle.drivers.profiles.heat_stack.api.heat import Heat

METHOD: Final = "heat-delete+instance-actions"
_RECENT_S: Final = 5.0
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def submit(job: StackOperation) -> Progress:
    """Ask for the deletion of the node's copy; without a copy's id, of every one with its mark."""
    return _every(job, act=True)


def poll(job: StackOperation) -> Progress:
    """Say how far it is."""
    return _every(job, act=False)


def _every(job: StackOperation, *, act: bool) -> Progress:
    known = job.target.physical_id
    idents = [known] if known else [stack.id for stack in copies(job)]
    if not idents and job.sent is not None and job.sent.ident:
        # What this process has asked for is in no list of what is there any more.
        idents = [job.sent.ident]
    if not idents:
        return done("there is no such stack, and none bears the mark of this node")
    found = [_one(job, ident, act=act) for ident in idents]
    for state in (ProgressState.FAILED, ProgressState.ABSENT, ProgressState.RUNNING):
        for progress in found:
            if progress.state is state:
                return progress
    return found[0]


def _one(job: StackOperation, ident: str, *, act: bool) -> Progress:
    stack = job.heat.show(ident)
    if stack is None:
        return done(f"Heat knows no stack {ident}", method=METHOD)
    if why := stranger(stack, job.target):
        return failed(f"DELETE: {why}")
    if stack.gone:
        return _ended(job, stack)
    if stack.action == "DELETE" and stack.busy:
        return running(stack.words)
    if (before := _asked_before(job, stack)) is not None or not act:
        return before or ABSENT
    return _ask(job, stack)


def _asked_before(job: StackOperation, stack: Stack) -> Progress | None:
    """Say what came of the request that this process has sent; None where nothing did."""
    sent = job.sent
    if sent is None:
        return None
    if stack.status == f"DELETE_{FAILED}" and sent.request_id != (stack.updated or ""):
        sick = of_state(judged(job.heat.resources(stack), {}), State.UNCLEAR)
        return failed(f"DELETE failed: {stack.words}; {named(sick)}")
    if job.waited_s(None) < _RECENT_S:
        return running(f"not begun yet: {stack.words}")
    return None


def _ask(job: StackOperation, stack: Stack) -> Progress:
    try:
        if locked := job.reader.locked(stack):
            return barred(job, locked)
        with job.sending(stack.id, before=stack.updated or ""):
            job.heat.delete(stack, trace=job.trace)
    except NotFound:
        return running("it is being forgotten")
    return running(f"deletion accepted; it was {stack.words}")


def servers_ever(heat: Heat, stack: Stack) -> list[str]:
    """Return the ids of all that a stack and those nested in it ever held, servers among them."""
    stacks = [stack, *heat.nested_in(stack.id)]
    own = {one.id for one in stacks}
    found = {
        event.physical_id
        for one in stacks
        for event in heat.events(one)
        if event.physical_id and _UUID.fullmatch(event.physical_id)
    }
    return sorted(found - own)


def _ended(job: StackOperation, stack: Stack) -> Progress:
    """Say what Nova's record proves of the servers of a stack that is deleted."""
    doubts: list[str] = []
    for ident in servers_ever(job.heat, stack):
        if job.proofs.hold(ident):
            continue
        verdict, detail = _guest(job, ident)
        if verdict is None:
            return running(f"stack {stack.id} is deleted; server {ident}: {detail}")
        if verdict:
            job.proofs.note(ident)
        else:
            doubts.append(f"server {ident} is gone from Nova, but {detail}")
    if doubts:
        return failed(f"DELETE: stack {stack.id} is deleted: {'; '.join(doubts)}")
    return done(f"stack {stack.id} is deleted, and no guest of it is left", method=METHOD)


def _guest(job: StackOperation, ident: str) -> tuple[bool | None, str]:
    """Say whether the guest of what may have been a server has ended; None: not yet."""
    try:
        acts = job.servers.history(ident)
    except NotFound:
        return True, "it was no server, or Nova knows nothing of it any more"
    except Forbidden as error:
        return False, f"Nova does not tell what was done to it: {error}"
    newest = acts[0].request_id if acts and acts[0].action == "delete" else None
    last = job.servers.act(ident, newest) if newest else None
    if last is not None and last.events and proof([last])[0]:
        # The usual end, told by two requests: a busy cloud must not make us begin again for ever.
        return proof([last])
    server = job.servers.show(ident)
    if server is not None and server.status == "UNKNOWN":
        return None, words_of(server)
    if server is not None and server.status not in ("DELETED", "SOFT_DELETED"):
        # Heat says that it has deleted all that it was to delete.
        return True, "the template has it retained"
    return proof(with_events(acts, lambda request: job.servers.act(ident, request)))
