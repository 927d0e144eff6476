"""The networks of a server that is updated: what is new is attached, then what is gone detached.

One change at a time, each told by what the server is connected to and by Nova's record of it: so a
server is never without both, and whoever takes over goes on with what is missing. Interfaces that
neither the old profile nor the new one names are somebody else's, and stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from yaffle.drivers.profiles.nova_server.api import server_parts
from yaffle.drivers.profiles.nova_server.operations.inplace import id_of_newest
from yaffle.drivers.profiles.nova_server.tracking.action_progress import over, wrong_with
from yaffle.drivers.profiles.nova_server.tracking.operation import (
    SETTLE_S,
    UNTOLD,
    absent,
    done,
    failed,
    running,
)
from yaffle.drivers.profiles.nova_server.tracking.stuck_tasks import for_verb
from yaffle.drivers.profiles.nova_server.tracking.verbs import idle
from yaffle.errors import BadRequest, NotFound, YaffleError
from yaffle.integrations.openstack.servers.status_mapping import words_of

if TYPE_CHECKING:
    from yaffle.drivers.profiles.nova_server.api.documents import Server
    from yaffle.drivers.profiles.nova_server.api.server_parts import Interface
    from yaffle.drivers.profiles.nova_server.tracking.operation import ServerOperation
    from yaffle.drivers.profiles.nova_server.tracking.ownership_tags import Mark
    from yaffle.integrations.openstack.servers.documents import Action
    from yaffle.model.operations import Progress

KIND: Final = "NETWORKS"
"""What the mark says."""
ACTS: Final = ("attach_interface", "detach_interface")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A network that a profile asks for, by ids."""

    port: str = ""
    network: str = ""
    address: str = ""

    def is_of(self, interface: Interface) -> bool:
        """Whether that interface fulfils it."""
        if self.port:
            return interface.port_id == self.port
        addresses = {fixed.ip_address for fixed in interface.fixed_ips or ()}
        return interface.net_id == self.network and self.address in {"", *addresses}

    @property
    def body(self) -> dict[str, object]:
        """The body of the request to Nova."""
        if self.port:
            return {"port_id": self.port}
        fixed = {"fixed_ips": [{"ip_address": self.address}]} if self.address else {}
        return {"net_id": self.network, **fixed}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The next change: one of the two."""

    attach: Wish | None = None
    detach: str = ""
    """A port."""

    @property
    def told(self) -> str:
        """The change in words."""
        if self.attach is not None:
            return f"to be attached: {self.attach.body}"
        return f"to be detached: port {self.detach}"


def changeable(old: object, new: object) -> bool:
    """Whether a server can be given other networks: which ones "auto" meant, nobody has told us."""
    return old == new or "auto" not in (old, new)


def next_change(
    old: Sequence[Wish], new: Sequence[Wish], has: Sequence[Interface]
) -> Change | None:
    """Return what to do next; None when nothing is left. Raise BadRequest where that is not known."""
    gone = list(old)
    for wish in new:
        if wish in gone:
            gone.remove(wish)
    # A port that only the old profile names is to be let go of, also where it is in a new network.
    # Not where the new one names its address: nobody else could have that.
    wanted = [wish for wish in new if wish.address]
    named = {wish.port for wish in gone if wish.port} - {
        interface.port_id for interface in has if any(wish.is_of(interface) for wish in wanted)
    }
    free = [interface for interface in has if interface.port_id not in named]
    missing = _taken(new, free)
    if missing:
        return Change(attach=missing[0])
    free += [interface for interface in has if interface.port_id in named]
    for wish in _by_precision(gone):
        found = [interface for interface in free if wish.is_of(interface)]
        alike = [other for other in gone if other == wish]
        if len(found) > len(alike):
            ports = ", ".join(sorted(interface.port_id for interface in found))
            raise BadRequest(
                f"networks: which of the ports {ports} is the one that the old profile asked for is"
                " not known: detach it by hand"
            )
        if found:
            return Change(detach=min(interface.port_id for interface in found))
    return None


def _taken(wishes: Sequence[Wish], free: list[Interface]) -> list[Wish]:
    """Take from `free` what fulfils the wishes, the most precise first; return the others."""
    missing = []
    for wish in _by_precision(wishes):
        found = next((interface for interface in free if wish.is_of(interface)), None)
        if found is None:
            missing.append(wish)
        else:
            free.remove(found)
    return missing


def _by_precision(wishes: Sequence[Wish]) -> list[Wish]:
    return sorted(wishes, key=lambda wish: (not wish.port, not wish.address))


def stands(job: ServerOperation, server: Server, mark: Mark | None, old: object) -> Progress:
    """Say whether all is done; ABSENT where there is something to be attached or detached."""
    if not idle(server):
        return running(words_of(server))
    under_way = _under_way(job, server, mark)
    if under_way is not None:
        return under_way
    change = _next(job, server, old)
    if change is not None:
        return absent(f"networks: {change.told}")
    return done("it is connected as its profile says")


def begin(job: ServerOperation, server: Server, old: object) -> Progress:
    """Mark the server, and make the next change."""
    change = _next(job, server, old)
    if change is None:
        return running("it is connected as its profile says")
    if not idle(server):
        return for_verb(job, server, words_of(server))
    acts = job.nova.acts(server.id)
    if acts is None:
        return failed(
            f"{job.op.kind}: networks: {UNTOLD}: whether it is being done could not be known"
        )
    sent = job.of(KIND)
    mark = replace(job.mark(before=id_of_newest(acts)), kind=KIND)
    try:
        job.nova.mark(server.id, mark.written())
    except YaffleError:
        sent.nothing_sent()
        raise
    try:
        with sent.sending(server.id):
            answer = (
                server_parts.attach(job.nova, server.id, change.attach.body, trace=job.trace)
                if change.attach is not None
                else server_parts.detach(job.nova, server.id, change.detach, trace=job.trace)
            )
    except NotFound as error:
        if change.attach is not None:
            return failed(f"{job.op.kind}: networks: {error}")
        # It is detached already: by somebody else, or it was deleted.
        return running(f"networks: {error}")
    sent.accepted(server.id, answer.request_id)
    return running(f"networks: {change.told} ({answer.request_id})")


def _next(job: ServerOperation, server: Server, old: object) -> Change | None:
    before, after = _wishes(job, old, gone=True), _wishes(job, job.target.spec.get("networks"))
    return next_change(before, after, server_parts.interfaces(job.nova, server.id))


def _wishes(job: ServerOperation, given: object, *, gone: bool = False) -> list[Wish]:
    """Return the networks by their ids; of the old ones (`gone`), those that are still there."""
    found = []
    for item in given if isinstance(given, list | tuple) else ():
        if not isinstance(item, Mapping):
            continue
        if item.get("port"):
            found.append(Wish(port=str(item["port"])))
            continue
        try:
            network = job.network(item.get("network"))
        except BadRequest as error:
            if gone and "there is no network" in str(error):
                continue
            raise
        found.append(Wish(network=network, address=str(item.get("fixed_ip") or "")))
    return found


def _under_way(job: ServerOperation, server: Server, mark: Mark | None) -> Progress | None:
    """Say how far the last change is; None once it is over, or where none was ever begun."""
    sent = job.of(KIND)
    if mark is None or sent.refused:
        return None
    acts = job.nova.acts(server.id)
    if acts is None:
        # It may be going on: what is asked for again while we are not told is done twice.
        return running(f"networks: {UNTOLD}")
    act = _act(job, server, mark, acts)
    if act is None or (act.events is None and act.message is None):
        if sent.waited_s(mark) < SETTLE_S:
            return running("networks: begun, and nothing to be seen of it yet")
        return None
    if wrong := wrong_with(act):
        return failed(f"{job.op.kind}: {act.action} failed: {wrong}; {words_of(server)}")
    return None if over(act) else running(f"{act.action} is not over")


def _act(job: ServerOperation, server: Server, mark: Mark, acts: Sequence[Action]) -> Action | None:
    """Return our change that is newer than the mark, with its events; the newest act comes first."""
    nova = job.nova
    since = takewhile(lambda act: not mark.before or act.request_id != mark.before, acts)
    ours = next((a for a in since if a.action in ACTS and a.user_id == nova.client.user_id), None)
    if ours is None or not ours.request_id:
        return None
    return server_parts.told(nova, server.id, ours.request_id) or ours
