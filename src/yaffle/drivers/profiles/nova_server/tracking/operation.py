"""Operation on a server: what it is, what it may ask, and the few ways for it to stand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from yaffle.drivers.profiles.nova_server.settings import Kept
from yaffle.drivers.profiles.nova_server.tracking.ownership_tags import Mark, mark_of
from yaffle.errors import Conflict, NotFound, YaffleError
from yaffle.integrations.openstack import CloudUnavailable
from yaffle.integrations.openstack.ownership_tags import NODE, trace_of
from yaffle.integrations.openstack.sent_requests import Sent, SentRequests
from yaffle.integrations.openstack.servers.status_mapping import lock_of, words_of
from yaffle.model.ids import OperationId
from yaffle.model.operations import Hindrance, Operation, Progress, ProgressState

if TYPE_CHECKING:
    from yaffle.drivers.profiles.nova_server.api.nova import Nova
    from yaffle.integrations.openstack.servers.documents import Listed
    from yaffle.integrations.openstack.servers.server_cache import ServerCache
    from yaffle.integrations.openstack.servers.stuck_tasks import Tasks
    from yaffle.model.operations import Target
    from yaffle.ports.clock import Clock

SETTLE_S: Final = 20.0
"""How long a request that got no answer may still be on its way to Nova, or in its queue."""
UNTOLD: Final = "Nova does not tell what is done to a server (os-instance-actions)"
FORCED_DOWN: Final = "is forced down"
_OF_LOCKS: Final = frozenset({"LOCK", "UNLOCK"})
ABSENT: Final = Progress(
    state=ProgressState.ABSENT, detail="the server bears no trace of that operation"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOperation:
    """The context of a submit or a poll, in its thread."""

    op: Operation
    operation_id: OperationId
    nova: Nova
    census: ServerCache
    memory: SentRequests
    tasks: Tasks
    clock: Clock
    facts: Mapping[str, object]
    """Where the copies are: attributes of every server that is made."""
    kept: Kept = field(default_factory=Kept)
    part: str = ""
    """The act that is meant where an operation asks for several: what was sent of each is known apart."""

    def of(self, part: str) -> ServerOperation:
        """Return the job of one act among several."""
        return replace(self, part=part)

    @property
    def target(self) -> Target:
        """The node."""
        return self.op.target

    @property
    def trace(self) -> str | None:
        """The request id under which the cloud's logs name this operation."""
        return trace_of(self.operation_id)

    def flavor(self, given: object, *, anew: bool = False) -> str:
        """Return the id of a flavor; `anew`: looked up whatever was found before."""
        return self._named("flavor", given, self.nova.flavor_id, anew=anew)

    def image(self, given: object, *, anew: bool = False) -> str:
        """Return the id of an image."""
        return self._named("image", given, self.nova.image_id, anew=anew)

    def network(self, given: object, *, anew: bool = False) -> str:
        """Return the id of a network."""
        return self._named("network", given, self.nova.network_id, anew=anew)

    def _named(self, what: str, given: object, look: Callable[[str], str], *, anew: bool) -> str:
        # A name means something else in another project.
        place = f"{what} {self.nova.client.project_id}"
        names = self.memory.names
        find = names.anew if anew else names.of
        return find(place, str(given), self.clock.monotonic_s(), look)

    def mark(self, *, before: str = "", source: str = "") -> Mark:
        """Return the mark to leave on the server now."""
        return Mark(
            operation_id=str(self.operation_id),
            kind=self.op.kind,
            at_us=self.clock.now_us(),
            before=before,
            source=source,
        )

    def marked(self, server: Listed) -> Mark | None:
        """Return this operation's mark on the server, if it bears that."""
        mark = mark_of(server.metadata)
        return mark if mark is not None and mark.operation_id == str(self.operation_id) else None

    @contextmanager
    def sending(self, ident: str = "", *, host: str = "", given_up: str = "") -> Iterator[None]:
        """Remember that something is being sent; and if it is certain that nothing came of it, that."""
        now_s, last = self.clock.monotonic_s(), self.memory.of(self._key) or Sent(at_s=0.0)
        again = self.sent is not None
        self._note(Sent(at_s=now_s, ident=ident, host=host, given_up=given_up, again=again))
        try:
            yield
        except Conflict as error:
            at_s, conflicts = self.clock.monotonic_s(), last.conflicts + 1
            self._note(Sent(at_s=at_s, refused=True, conflicts=conflicts, why=str(error)))
            raise
        except YaffleError as error:
            if not isinstance(error, CloudUnavailable) or not error.sent:
                self.nothing_sent()
            raise

    def too_soon(self) -> Progress | None:
        """Return the answer to a submit that comes soon after the cloud has refused the same act (409).

        A step, and a fence within it, asks anew with each of its short calls: how long the cloud has been
        refusing is known here alone.
        """
        last = self.memory.of(self._key)
        if last is None or not (pause_s := last.pause_s(self.clock.monotonic_s())):
            return None
        return running(f"later, asked again in {pause_s:.1f} s: {last.why}")

    def nothing_sent(self) -> None:
        """Remember that nothing of the operation is on its way."""
        self._note(Sent(at_s=self.clock.monotonic_s(), refused=True))

    def accepted(self, ident: str, request_id: str) -> None:
        """Remember under which id Nova has accepted what was just sent."""
        now_s = self.clock.monotonic_s()
        sending = self.sent or Sent(at_s=now_s)
        self._note(replace(sending, at_s=now_s, ident=ident, request_id=request_id))

    def still_away(self) -> None:
        """Nova answers nobody: what was sent may lie there, and its time to appear begins anew."""
        if (sent := self.sent) is not None and not sent.ident:
            self._note(replace(sent, at_s=self.clock.monotonic_s()))

    def _note(self, sent: Sent) -> None:
        self.memory.note(self._key, sent)
        if self.part and not sent.refused:
            # Whoever asks of the whole operation whether any of it may have arrived.
            self.memory.note(self.operation_id, sent)

    @property
    def _key(self) -> OperationId:
        return OperationId(f"{self.operation_id} {self.part}") if self.part else self.operation_id

    @property
    def sent(self) -> Sent | None:
        """The requests that this process has sent, and that may have arrived."""
        sent = self.memory.of(self._key)
        return None if sent is None or sent.refused else sent

    def sent_about(self, ident: str) -> Sent | None:
        """Return what this process has sent last, if that was about this server."""
        sent = self.sent
        return sent if sent is not None and sent.ident == ident else None

    @property
    def refused(self) -> bool:
        """Whether what this process sent last is known to have come to nothing."""
        sent = self.memory.of(self._key)
        return sent is not None and sent.refused

    def since_s(self, settle_s: float = 0.0) -> float:
        """Return when a list must have been begun, at the earliest, to say what there is; monotonic.

        Since this process first tried the operation it alone has been at it. What it has sent itself
        may appear until `settle_s` later.
        """
        first_s = self.memory.trying(self.operation_id, self.clock.monotonic_s())
        last = self.memory.of(self._key)
        if last is None:
            return first_s
        return max(first_s, last.at_s + (0.0 if last.refused else settle_s))

    def waited_s(self, mark: Mark | None) -> float:
        """Return for how long nothing has been seen of what was begun."""
        sent = self.sent
        if sent is not None:
            return self.clock.monotonic_s() - sent.at_s
        # Another engine began it: by the clock that all engines keep with their database.
        began_us = mark.at_us if mark is not None else 0
        return max(0.0, (self.clock.now_us() - began_us) / 1_000_000)


def running(detail: str, *, physical_id: str | None = None) -> Progress:
    """Ask again later."""
    return Progress(state=ProgressState.RUNNING, detail=detail, physical_id=physical_id)


def unasked(detail: str) -> Progress:
    """Ask again later: Nova gave no usable answer, which says nothing of the operation.

    What was said before tells more.
    """
    return Progress(
        state=ProgressState.RUNNING, detail=detail, hindrance=Hindrance.UNASKED, untold=True
    )


def failed(detail: str, *, physical_id: str | None = None) -> Progress:
    """Return the progress of an operation that ended otherwise than it should."""
    return Progress(state=ProgressState.FAILED, detail=detail, physical_id=physical_id)


def barred(job: ServerOperation, server: Listed) -> Progress | None:
    """Return the end of an act on a server that is locked, or for which there is no reason any more.

    Nova itself would refuse it to a user, and not to an administrator, as which Yaffle may act. Of a
    server in a cell that it cannot reach it tells neither that nor whose it is.
    """
    if server.status == "UNKNOWN":
        return unasked(f"whether server {server.id} is locked is not told: {words_of(server)}")
    if (why := lock_of(server)) and job.op.kind not in _OF_LOCKS:
        return _hindered(job, why, Hindrance.BARRED)
    return over(job, server)


def over(job: ServerOperation, server: Listed) -> Progress | None:
    """Return the end of an act for want of its reason: a host that was lost carries the server again.

    Asked right before the act. A look is older than that, and a host that comes back in between would
    be told to end what is well.
    """
    if not job.target.host_lost or not server.host or away(job, server):
        return None
    why = f"its host {server.host}, which was lost, is up again: it is looked at again first"
    return _hindered(job, why, Hindrance.OVER)


def away(job: ServerOperation, server: Listed) -> str:
    """Say how the host of a server is away; empty while Nova takes it for alive, or shows us no host.

    Of a host that is closed to new servers (MAINTENANCE, which comes before any other word) the status of
    its servers does not say.
    """
    if not server.host or server.host_status in (None, "UP"):
        return ""
    service = (job.nova.services() or {}).get(server.host)
    if service is None:
        return "may be down (Nova does not tell us)"
    if service.forced_down:
        return FORCED_DOWN
    return "" if service.up else "is down"


def _hindered(job: ServerOperation, why: str, hindrance: Hindrance) -> Progress:
    return Progress(state=ProgressState.FAILED, detail=f"{job.op.kind}: {why}", hindrance=hindrance)


@dataclass(frozen=True, slots=True)
class Todo:
    """The next part of an operation: begun by a submit, which the caller's lease guards."""

    why: str
    begin: Callable[[], Progress]


def told(found: Progress | Todo) -> Progress:
    """Return what a poll says: that there is something to begin, and not that it has been."""
    return absent(found.why) if isinstance(found, Todo) else found


def taken_up(found: Progress | Todo) -> Progress:
    """Return what a submit says: what is to be begun is begun."""
    return found.begin() if isinstance(found, Todo) else found


def absent(detail: str) -> Progress:
    """Return the progress of an operation that has to be begun, or a part of it, by a submit."""
    return Progress(state=ProgressState.ABSENT, detail=detail)


def done(
    detail: str,
    *,
    physical_id: str | None = None,
    attributes: Mapping[str, object] | None = None,
) -> Progress:
    """Return the progress of an operation that ended as it should."""
    return Progress(
        state=ProgressState.DONE, detail=detail, physical_id=physical_id, attributes=attributes
    )


def stranger(server: Listed, target: Target) -> str:
    """Say why a server is not this node's; empty when it is, or when nobody claims it."""
    owner = server.metadata.get(NODE, "")
    if owner in ("", str(target.node_id)):
        return ""
    return f"server {server.id} is the copy of node {owner}"


def of_error(error: YaffleError) -> Progress:
    """Return what an error of Nova's means for an operation that it came from.

    Unavailable is never an end: whoever polls next finds out whether anything has come of it.
    """
    match error:
        case CloudUnavailable():
            # Of this request alone: what was asked for before it may have arrived all the same.
            how = "it may have arrived" if error.sent else "this request was not sent"
            return unasked(f"no usable answer, {how}: {error}")
        case Conflict() if "task_state" in str(error):
            return running(f"later, for something else is being done to it: {error}")
        case NotFound():
            return failed(f"it is gone: {error}")
        case _:
            return failed(str(error))
