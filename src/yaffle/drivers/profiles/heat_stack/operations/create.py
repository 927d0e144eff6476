"""CREATE: one stack per node, for its name is made of the node's id and Heat has a name only once.

It looks before it makes, though, and of requests at the same moment each may find nothing. So where
two stacks bear the same operation all the same, the oldest is the copy and the others are removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import structlog

from yaffle.drivers.profiles.heat_stack.operations.operation import (
    ABSENT,
    SETTLE_S,
    StackOperation,
    done,
    failed,
    running,
)
from yaffle.drivers.profiles.heat_stack.status.members import State, judged, named, of_state
from yaffle.drivers.profiles.heat_stack.status.ownership_tags import name_of, node_tag, tags_for
from yaffle.drivers.profiles.heat_stack.status.reading import PROJECT
from yaffle.drivers.profiles.heat_stack.status.status_mapping import COMPLETE
from yaffle.errors import Conflict, NotFound

if TYPE_CHECKING:
    from yaffle.drivers.profiles.heat_stack.api.documents import Stack
    from yaffle.model.operations import Progress

log = structlog.get_logger(__name__)

_VERBATIM: Final = ("template", "template_url", "parameters", "files", "environment")
STACK_NAME: Final = "stack_name"


def submit(job: StackOperation) -> Progress:
    """Ask for a stack, unless this operation has, or an older copy may still run."""
    found = copies(job)
    ours = [stack for stack in found if job.marked(stack)]
    if ours:
        return _stands(job, _one_of(job, ours))
    if left := [stack for stack in found if stack.id not in job.op.waived]:
        older = ", ".join(f"{stack.id} ({stack.words})" for stack in left)
        return failed(f"CREATE: an older copy of this node may still run: {older}")
    if waiting := _under_way(job):
        return waiting
    body = {
        STACK_NAME: _name(job, found),
        "tags": tags_for(job.target, job.mark()),
        **made_of(job.target.spec),
    }
    with job.sending():
        ident = job.heat.create(body, trace=job.trace)
    return running(f"Heat has accepted stack {ident}", physical_id=ident)


def _name(job: StackOperation, beside: list[Stack]) -> str:
    """Return the new stack's name: Heat gives none twice, and one that is waived may still be there."""
    name = name_of(job.target.node_id)
    if not beside:
        return name
    log.warning("made beside an older copy", node=job.target.node_id, stacks=[s.id for s in beside])
    return f"{name}-{str(job.operation_id)[:8]}"


def poll(job: StackOperation) -> Progress:
    """Say how far the stack is."""
    ours = [stack for stack in copies(job) if job.marked(stack)]
    return _stands(job, _one_of(job, ours)) if ours else _under_way(job) or ABSENT


def copies(job: StackOperation) -> list[Stack]:
    """Return every stack that is a copy of the node, by its name, its mark or the id that we know."""
    target = job.target
    several = [*job.heat.named(name_of(target.node_id)), *job.heat.tagged(node_tag(target.node_id))]
    if target.physical_id:
        # Its mark may have been wiped, and it may have been adopted under a name of its own.
        stack = job.heat.show(target.physical_id)
        several += [stack] if stack is not None and not stack.gone else []
    return list({stack.id: stack for stack in several}.values())


def _one_of(job: StackOperation, ours: list[Stack]) -> Stack:
    """Return the stack that counts, and delete what the same operation has made besides."""
    first, *extras = sorted(ours, key=lambda s: (s.action == "DELETE", s.created or "", s.id))
    for extra in extras:
        if extra.action != "DELETE":
            log.warning("extra copy deleted", stack=extra.id, node=job.target.node_id)
            with suppress(NotFound, Conflict):
                job.heat.delete(extra, trace=job.trace)
    return first


def _under_way(job: StackOperation) -> Progress | None:
    """Say that a request which got no answer may still come to something."""
    if job.sent is None or job.waited_s(None) >= SETTLE_S:
        return None
    return running("asked for, and nothing to be seen of it yet")


def _stands(job: StackOperation, stack: Stack) -> Progress:
    """Say how far that stack is."""
    if stack.busy and stack.action not in ("DELETE", "ROLLBACK"):
        return running(stack.words, physical_id=stack.id)
    if stack.status == f"ROLLBACK_{COMPLETE}" or stack.action == "DELETE" or stack.busy:
        why = f"CREATE: stack {stack.id} was taken back: {stack.words}"
        return failed(why, physical_id=stack.id)
    if not stack.status.endswith(f"_{COMPLETE}"):
        sick = of_state(judged(job.heat.resources(stack), {}), State.FAILED)
        why = f"CREATE: stack {stack.id} failed: {stack.words}; {named(sick)}"
        return failed(why, physical_id=stack.id)
    return done(stack.words, physical_id=stack.id, attributes=facts_of(job, stack))


def facts_of(job: StackOperation, stack: Stack) -> dict[str, object]:
    """Return what is stored of a node with its copy."""
    return where_of(stack, job.heat.client.project_id, job.facts)


def where_of(stack: Stack, project: str, facts: Mapping[str, object]) -> dict[str, object]:
    """Return the stack's name, its project, and in which cloud that is."""
    found: dict[str, object] = {STACK_NAME: stack.name, PROJECT: project, **facts}
    return {key: value for key, value in found.items() if value != ""}


def made_of(spec: Mapping[str, object]) -> dict[str, object]:
    """Return what Heat is told of a profile, in its own words."""
    body: dict[str, object] = {key: spec[key] for key in _VERBATIM if spec.get(key) is not None}
    body["disable_rollback"] = spec.get("disable_rollback", True)
    if spec.get("timeout") is not None:
        body["timeout_mins"] = spec["timeout"]
    return body
