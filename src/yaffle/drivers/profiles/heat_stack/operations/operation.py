"""Operation on a stack: what it is, what it may ask, and the few ways for it to stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from yaffle.drivers.profiles.heat_stack.status.ownership_tags import Mark, mark_of, stranger
from yaffle.errors import Conflict, NotFound, YaffleError
from yaffle.integrations.openstack import CloudUnavailable
from yaffle.integrations.openstack.ownership_tags import trace_of
from yaffle.integrations.openstack.sent_requests import Sent, SentRequests
from yaffle.model.operations import Hindrance, Operation, Progress, ProgressState

if TYPE_CHECKING:
    from yaffle.drivers.profiles.heat_stack.api.documents import Stack
    from yaffle.drivers.profiles.heat_stack.api.heat import Heat
    from yaffle.drivers.profiles.heat_stack.operations.termination_proofs import Proofs
    from yaffle.drivers.profiles.heat_stack.status.reading import Reader
    from yaffle.integrations.openstack.servers.queries import Servers
    from yaffle.model.ids import OperationId
    from yaffle.model.operations import Target
    from yaffle.ports.clock import Clock

SETTLE_S: Final = 20.0
"""How long a request that got no answer may still be on its way to Heat, or in its queue."""
ABSENT: Final = Progress(
    state=ProgressState.ABSENT, detail="the stack bears no trace of that operation"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackOperation:
    """Context of a submit or a poll, in its thread."""

    op: Operation
    operation_id: OperationId
    heat: Heat
    servers: Servers
    reader: Reader
    memory: SentRequests
    proofs: Proofs
    clock: Clock
    facts: Mapping[str, object]
    """Where the copies are: attributes of every stack that is made."""

    @property
    def target(self) -> Target:
        """The node."""
        return self.op.target

    @property
    def trace(self) -> str | None:
        """The request id under which the cloud's logs name this operation."""
        return trace_of(self.operation_id)

    def mark(self, stack: Stack | None = None) -> Mark:
        """Return the mark to leave now, on a new stack or on one that is there."""
        return Mark(
            operation_id=str(self.operation_id),
            kind=self.op.kind,
            at_us=self.clock.now_us(),
            before=(stack.updated or "") if stack is not None else "",
        )

    def marked(self, stack: Stack) -> Mark | None:
        """Return this operation's mark on the stack, if it bears that."""
        mark = mark_of(stack)
        return mark if mark is not None and mark.operation_id == str(self.operation_id) else None

    @contextmanager
    def sending(self, ident: str = "", *, before: str = "") -> Iterator[None]:
        """Remember that something is being sent; and if it is certain that nothing came of it, that."""
        at_s = self.clock.monotonic_s()
        self.memory.note(self.operation_id, Sent(at_s=at_s, ident=ident, request_id=before))
        try:
            yield
        except YaffleError as error:
            if not isinstance(error, CloudUnavailable) or not error.sent:
                self.memory.note(self.operation_id, Sent(at_s=at_s, refused=True))
            raise

    @property
    def sent(self) -> Sent | None:
        """Return what this process has sent, and may have arrived."""
        sent = self.memory.of(self.operation_id)
        return None if sent is None or sent.refused else sent

    def waited_s(self, mark: Mark | None) -> float:
        """Return for how long nothing has been seen of what was begun."""
        sent = self.sent
        if sent is not None:
            return self.clock.monotonic_s() - sent.at_s
        # Another engine began it: by the clock that all engines keep with their database.
        began_us = mark.at_us if mark is not None else 0
        return max(0.0, (self.clock.now_us() - began_us) / 1_000_000)


def own(job: StackOperation) -> Stack | Progress:
    """Return the node's stack, or why there is nothing to act on."""
    ident = job.target.physical_id
    stack = job.heat.show(ident) if ident else None
    if stack is None or stack.gone:
        return failed(f"{job.op.kind}: there is no stack {ident}")
    why = stranger(stack, job.target)
    return failed(f"{job.op.kind}: {why}") if why else stack


def running(detail: str, *, physical_id: str | None = None) -> Progress:
    """Ask again later."""
    return Progress(state=ProgressState.RUNNING, detail=detail, physical_id=physical_id)


def unasked(detail: str) -> Progress:
    """Ask again later: Heat gave no usable answer, which says nothing of the operation.

    What was said before tells more.
    """
    return Progress(
        state=ProgressState.RUNNING, detail=detail, hindrance=Hindrance.UNASKED, untold=True
    )


def failed(detail: str, *, physical_id: str | None = None) -> Progress:
    """Return that it has ended otherwise than it should."""
    return Progress(state=ProgressState.FAILED, detail=detail, physical_id=physical_id)


def barred(job: StackOperation, why: str) -> Progress:
    """Return the end of an act on a stack with a locked server, which Nova lets administrators delete."""
    return Progress(
        state=ProgressState.FAILED, detail=f"{job.op.kind}: {why}", hindrance=Hindrance.BARRED
    )


def done(
    detail: str,
    *,
    physical_id: str | None = None,
    attributes: Mapping[str, object] | None = None,
    method: str = "",
) -> Progress:
    """Return that it has ended as it should."""
    return Progress(
        state=ProgressState.DONE,
        detail=detail,
        physical_id=physical_id,
        attributes=attributes,
        method=method,
    )


def of_error(error: YaffleError) -> Progress:
    """Return what an error of Heat's means for an operation that it came from.

    Unavailable is never an end: whoever polls next finds out whether anything has come of it.
    """
    match error:
        case CloudUnavailable():
            # Of this request alone: what was asked for before it may have arrived all the same.
            how = "it may have arrived" if error.sent else "this request was not sent"
            return unasked(f"no usable answer, {how}: {error}")
        case Conflict():
            # An action in progress, or a name that is not free yet.
            return running(f"later, for something else is being done to it: {error}")
        case NotFound():
            return failed(f"it is gone: {error}")
        case _:
            return failed(str(error))
