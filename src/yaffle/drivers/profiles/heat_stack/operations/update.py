"""UPDATE and STACK_UPDATE: the request that begins an update brings its mark along, both or neither.

STACK_UPDATE replaces what has failed and nothing else: Heat is told which members these are (seed 5)
and then updates the stack with what it is made of already. Marks that an engine left before it died
are found as what they are, members that are CHECK_FAILED, and not made twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yaffle.drivers.profiles.heat_stack.operations.create import facts_of, made_of
from yaffle.drivers.profiles.heat_stack.operations.operation import (
    ABSENT,
    SETTLE_S,
    StackOperation,
    barred,
    done,
    failed,
    own,
    running,
    unasked,
)
from yaffle.drivers.profiles.heat_stack.operations.replacement_choice import (
    Refusal,
    chosen,
    lost,
    to_mark,
)
from yaffle.drivers.profiles.heat_stack.operations.verbs import STACK_UPDATE
from yaffle.drivers.profiles.heat_stack.status.members import State, judged, named, of_state
from yaffle.drivers.profiles.heat_stack.status.ownership_tags import tags_for
from yaffle.drivers.profiles.heat_stack.status.status_mapping import COMPLETE, FAILED
from yaffle.model.operations import Progress, ProgressState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaffle.drivers.profiles.heat_stack.api.documents import Stack
    from yaffle.drivers.profiles.heat_stack.status.members import Member

REASON: Final = "Yaffle: "
_REASON_MAX: Final = 200


def submit(job: StackOperation) -> Progress:
    """Begin it, unless it has been begun."""
    stack = own(job)
    if isinstance(stack, Progress):
        return stack
    begun = follow(job, stack)
    if begun.state is not ProgressState.ABSENT:
        return begun
    if stack.busy:
        return running(f"later, for something else is being done to it: {stack.words}")
    if job.op.kind == STACK_UPDATE:
        return _repair(job, stack)
    body = {
        **made_of(job.target.spec),
        "tags": tags_for(job.target, job.mark(stack), stack.tags or ()),
    }
    with job.sending(stack.id):
        job.heat.replace(stack, body, trace=job.trace)
    return running(f"{job.op.kind} accepted")


def poll(job: StackOperation) -> Progress:
    """Say how far it is."""
    stack = own(job)
    return stack if isinstance(stack, Progress) else follow(job, stack)


def _repair(job: StackOperation, stack: Stack) -> Progress:
    """Tell Heat which members have failed, and have it replace them."""
    members = job.reader.members(stack)
    try:
        sick = chosen(members, _names(job))
        marks = to_mark(sick)
    except Refusal as refusal:
        return failed(f"{job.op.kind}: {refusal}")
    if not sick and not stack.status.endswith(f"_{FAILED}"):
        doubtful = of_state(members, State.UNCLEAR)
        more = f"; not clear: {named(doubtful)}" if doubtful else ""
        return failed(f"{job.op.kind}: no member is known to have failed{more}")
    seen = [member.seen for member in sick if member.seen is not None]
    if kept := next((one.kept for one in seen if one.kept), ""):
        return barred(job, kept)
    if unread := next((one for one in seen if not one.asked), None):
        return unasked(f"whether it is locked is not known: {unread.words}")
    if why := _lost(job, sick):
        return failed(f"{job.op.kind}: {why}")
    reasons = {id(member.resource): member.why for member in sick}
    for resource in marks:
        reason = f"{REASON}{reasons[id(resource)]}"[:_REASON_MAX]
        job.heat.mark(resource, unhealthy=True, reason=reason)
    tags = tags_for(job.target, job.mark(stack), stack.tags or ())
    with job.sending(stack.id):
        job.heat.update(stack, {"tags": tags}, trace=job.trace)
    return running(f"update accepted, to replace {named(sick) or 'what Heat calls failed'}")


def _names(job: StackOperation) -> list[str]:
    given = job.op.params.get("resources")
    return [str(name) for name in given] if isinstance(given, list | tuple) else []


def _lost(job: StackOperation, sick: Sequence[Member]) -> str:
    """Say which servers must not be replaced; those on hosts that are up, or forced down, may be."""
    if not lost(sick):
        return ""
    services = job.servers.services() or {}
    known = {host for host, service in services.items() if service.up or service.forced_down}
    return lost([m for m in sick if m.seen is not None and m.seen.host not in known])


def follow(job: StackOperation, stack: Stack) -> Progress:
    """Say how far this operation is on its stack; ABSENT where that bears no trace of it."""
    mark = job.marked(stack)
    if mark is not None and (stack.updated or "") != mark.before:
        return _begun(job, stack)
    if mark is None and job.sent is None:
        return ABSENT
    if job.waited_s(mark) < SETTLE_S:
        return running(f"asked for, and nothing to be seen of it yet; {stack.words}")
    # Heat counts in seconds: what was begun in the very second of what was before it shows no other.
    return _begun(job, stack) if mark is not None and stack.action == "UPDATE" else ABSENT


def _begun(job: StackOperation, stack: Stack) -> Progress:
    what = job.op.kind
    if stack.busy:
        return running(stack.words)
    if stack.action == "ROLLBACK":
        return failed(f"{what}: Heat has taken it back: {stack.words}")
    if stack.status.endswith(f"_{COMPLETE}"):
        return done(f"{what} is over; {stack.words}", attributes=facts_of(job, stack))
    sick = of_state(judged(job.heat.resources(stack), {}), State.FAILED)
    return failed(f"{what} failed: {stack.words}; {named(sick)}")
