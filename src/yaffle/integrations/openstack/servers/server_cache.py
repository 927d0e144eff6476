"""The list of all servers, kept up to date by what has changed: one request for a thousand nodes.

A full sweep now and then, after every error and whenever it is asked for; between two of them only
what changed since the newest change that we have seen (with a margin, for those who write the times
do not agree on them to the second). Whoever asks while a pass runs gets the next one, shared with
everybody who has been waiting for it.

Of a cell that it cannot reach Nova tells no more than the ids of its servers. Whoever was seen before
keeps what was known of it, but for how it is; one that never was may be anybody's copy, so that for its
project nothing is proved by what the list lacks.

A pass that takes longer than those have who asked for it goes on without them, and there is never a
second one beside it: a list that we give up is still made by the cloud, and one more on top of it
makes both slower, until it does nothing else. Its result is for those who ask next, once for each node,
and says how old it is: nobody may take it for the word of now.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, Protocol

from yaffle.errors import YaffleError
from yaffle.integrations.openstack.faults import CloudBusy, CloudUnavailable
from yaffle.integrations.openstack.ownership_tags import NODE

if TYPE_CHECKING:
    from yaffle.integrations.openstack.client import Client
    from yaffle.integrations.openstack.servers.documents import Listed, ServerPage
    from yaffle.ports.clock import Clock

FULL_S: Final = 60.0
"""Between two full sweeps."""
MARGIN: Final = timedelta(seconds=60)
PASS_S: Final = 60.0
"""A pass is given up after so long at most. It grows to that from what who began it had, doubled each
time: a request that a dead network has swallowed keeps all others waiting no longer than need be."""
LATE_S: Final = 120.0
"""How old a list that came late may be."""
PAGES_MAX: Final = 500


class Nova(Protocol):
    """The part of Nova's API that the cache asks."""

    client: Client

    def page(self, *, marker: str = "", since: str = "") -> ServerPage:
        """Return a page of servers; with `since`, those that changed, deleted ones included."""
        ...

    def cells_away(self) -> bool:
        """Whether Nova says that it cannot reach a cell; false where it does not tell us."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The servers of one moment, by id."""

    servers: Mapping[str, Listed]
    newest: str = ""
    """The newest change in it, in Nova's words for a time."""
    copies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Ids of the servers that bear a node's mark, the oldest first."""
    began_s: float = 0.0
    """When it was begun to be asked for, monotonic: what it says may be as old as that."""
    age_s: float = 0.0
    """How long before its asker asked it was begun; 0 of one that was begun for its asker."""
    late: bool = False
    """Whether it came too late for who had begun it, and is handed on."""
    lacks: Mapping[str, str] = field(default_factory=dict)
    """Why a project's servers may be missing in it, or bear marks that are not told; "": anybody's."""

    def whole(self, project: str = "") -> Snapshot:
        """Return it; raise CloudUnavailable where it may lack servers of that project, or of any."""
        for whose, why in self.lacks.items():
            if not project or whose in ("", project):
                raise CloudUnavailable(why, sent=False)
        return self

    def copies_of(self, node_id: str, project: str = "") -> list[Listed]:
        """Return the servers that bear the mark of a node, the oldest first.

        Raises CloudUnavailable where not all servers of its project, or of any, are told.
        """
        self.whole(project)
        return [self.servers[ident] for ident in self.copies.get(node_id, ())]


def gathered(
    servers: Mapping[str, Listed], newest: str, lacks: Mapping[str, str] | None = None
) -> Snapshot:
    """Return the snapshot of these servers."""
    copies: dict[str, list[Listed]] = {}
    for server in servers.values():
        if node := server.metadata.get(NODE):
            copies.setdefault(node, []).append(server)
    return Snapshot(
        servers=servers,
        newest=newest,
        copies={
            node: tuple(s.id for s in sorted(several, key=lambda s: (s.created, s.id)))
            for node, several in copies.items()
        },
        lacks=lacks or {},
    )


def updated(old: Snapshot, changes: list[Listed]) -> Snapshot:
    """Return the snapshot after some changes; what was deleted is in it no more."""
    servers = dict(old.servers)
    for server in changes:
        if server.status == "DELETED":
            servers.pop(server.id, None)
        else:
            servers[server.id] = server
    return gathered(servers, max([old.newest, *(s.updated for s in changes)]), old.lacks)


def remembered(
    found: Iterable[Listed], before: Mapping[str, Listed]
) -> tuple[dict[str, Listed], dict[str, str]]:
    """Return the servers of a full sweep, and what it lacks for projects with hidden ones.

    `before`: as they were seen last, before their cell was away.
    """
    servers: dict[str, Listed] = {}
    lacks: dict[str, str] = {}
    for server in found:
        if server.status == "DELETED":
            continue
        known = before.get(server.id, server) if server.hidden else server
        if known.hidden:
            lacks[server.tenant_id] = (
                f"Nova cannot reach the cell of server {server.id}, and does not tell whose copy it is"
            )
        servers[server.id] = known.out_of_reach() if server.hidden else server
    return servers, lacks


def ended_untold(old: Snapshot, changes: list[Listed]) -> frozenset[str]:
    """Return the copies of ours whose end no list of changes may have told.

    Nova lists a server that no cell has yet with all changes, as long as it is there; deleted, it is
    forgotten without a trace.
    """
    told = {server.id for server in changes}
    copies = (old.servers[ident] for several in old.copies.values() for ident in several)
    return frozenset(c.id for c in copies if c.waits_for_host and c.id not in told)


def since(newest: str) -> str:
    """Return from when on to ask for changes, a margin before the newest that is known.

    Empty, which asks for everything, where the cloud has told no time that there is.
    """
    try:
        return (datetime.fromisoformat(newest) - MARGIN).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError):
        return ""


class ServerCache:
    """Shared by all threads of a profile."""

    def __init__(self, clock: Clock, *, full_s: float = FULL_S, shared_s: float = 0.0) -> None:
        """`shared_s`: a list that was begun so lately is good enough, unless a full one is wanted.

        For those who read many clusters of one cloud: all of them share a request. It must be
        shorter than the pause between two looks at the same cluster, or one list counts as two.
        """
        self._clock = clock
        self._full_s = full_s
        self._shared_s = shared_s
        self._changed = threading.Condition()
        self._begun = 0
        self._over = 0
        self._running = False
        self._answer: Snapshot | YaffleError | None = None
        self._known: Snapshot | None = None
        self._swept_s = 0.0
        self._swept: Snapshot | None = None
        """What the last full sweep has found that came to an end."""
        self._began_s = 0.0
        """When the pass began that `_known` is of."""
        self._full_due = True
        self._stretch = 1.0
        """How many times its asker's time a pass may take."""
        self._late = False
        """Whether `_known` came when who had begun it waited no more."""
        self._seen: Mapping[str, Listed] = {}
        """All servers as they were told last; that outlasts what goes wrong."""
        self._in_a_cell: frozenset[str] = frozenset()
        """Copies that wait for a host and are there, though no list of changes has them: a cell has them,
        and their end is told."""
        self._had: set[str] = set()
        """The nodes of which the late list has been read: of none twice, whoever asks."""

    def take(
        self,
        nova: Nova,
        *,
        full: bool = False,
        after_s: float | None = None,
        nodes: Collection[str] = (),
        changes: bool = False,
    ) -> Snapshot:
        """Return the servers as of after this call; raises what asking for them has raised.

        `nodes`: what is read of, where that is asked for again and again. A list that came too late for
        the last look will do then, if there is one and it was read for none of them: a second look at
        what failed in the first, whoever else is in it, is another list. `full` wants all of it anew; a
        full sweep that was begun at `after_s` (monotonic) or later will do. `changes`: what has changed
        lately is to be added to what is known, in the time that is left, or CloudBusy is raised.
        """
        asked_s = self._clock.monotonic_s()
        with self._changed:
            if full and (swept := self._swept_since(after_s)) is not None:
                return swept
            if not full and (known := self._known_for(nodes, asked_s)) is not None:
                return known
            self._full_due = self._full_due or full
            wanted = self._begun + 1
            while self._running:
                if not self._changed.wait(max(0.0, nova.client.left_s())):
                    raise CloudBusy("the list of servers was not there in time")
                if self._over >= wanted:
                    self._had.update(nodes)
                    return self._shared()
                if full and (swept := self._swept_since(after_s)) is not None:
                    return swept
                if not full and (known := self._known_for(nodes, asked_s)) is not None:
                    return known
            base = self._usable()
            if changes and base is None:
                raise CloudBusy("the list of servers is slow, and a new one would not be in time")
            self._begun += 1
            self._running, self._full_due = True, False
        return self._made(nova, base, stretched=not changes, counted=bool(nodes))

    def _made(
        self, nova: Nova, base: Snapshot | None, *, stretched: bool, counted: bool
    ) -> Snapshot:
        """Make the pass that has been begun, as long as it may take; `counted`: what it says counts."""
        began_s = self._clock.monotonic_s()
        left_s = nova.client.left_s()
        patience_s = max(left_s, min(PASS_S, left_s * (self._stretch if stretched else 1.0)))
        answer: Snapshot | YaffleError = CloudUnavailable("the list was given up", sent=False)
        try:
            with nova.client.patient(patience_s):
                answer = self._pass(nova, base)
        except YaffleError as error:
            answer = error
        finally:
            with self._changed:
                self._running = False
                self._over, self._answer = self._begun, answer
                self._known = answer if isinstance(answer, Snapshot) else None
                self._began_s = began_s
                late = self._late = self._clock.monotonic_s() - began_s >= left_s
                self._had.clear()
                self._stretched(answer)
                self._changed.notify_all()
        if isinstance(answer, YaffleError):
            raise answer
        if late and counted:
            # Its asker may still hear it by a hair, and would hear it again at the next look.
            raise CloudBusy("the list of servers came too late for who had begun it")
        return answer

    def _known_for(self, nodes: Collection[str], asked_s: float) -> Snapshot | None:
        """Return the list that is known, with its age, if it is good enough for who asks about nodes."""
        known = self._known
        if known is None:
            return None
        age_s = max(0.0, asked_s - self._began_s)
        if not self._late and self._clock.monotonic_s() - self._began_s < self._shared_s:
            return replace(known, age_s=age_s)
        return replace(known, age_s=age_s, late=True) if self._belated(nodes) else None

    def _swept_since(self, after_s: float | None) -> Snapshot | None:
        """Return the last full sweep, if it was begun then or later; an old one proves nothing."""
        swept = self._swept
        if after_s is None or swept is None or swept.began_s < after_s:
            return None
        return swept if self._clock.monotonic_s() - swept.began_s <= LATE_S else None

    def _stretched(self, answer: Snapshot | YaffleError) -> None:
        """Give the next pass more time where this one had too little."""
        if self._late:
            self._stretch = min(self._stretch * 2, PASS_S)
            return
        if isinstance(answer, Snapshot):
            self._stretch = 1.0

    def _belated(self, nodes: Collection[str]) -> bool:
        """Whether the list came too late for its asker, and was read for none of these nodes."""
        if not nodes or not self._late or self._running:
            return False
        age_s = self._clock.monotonic_s() - self._began_s
        if age_s > LATE_S or not self._had.isdisjoint(nodes):
            return False
        self._had.update(nodes)
        return True

    def _shared(self) -> Snapshot:
        if isinstance(self._answer, YaffleError):
            raise self._answer
        assert self._answer is not None  # noqa: S101 - a pass is over
        return self._answer

    def _usable(self) -> Snapshot | None:
        """Return what a list of changes may be added to; None when it is time for a full sweep."""
        late = self._clock.monotonic_s() - self._swept_s >= self._full_s
        if self._full_due or late or self._known is None or not since(self._known.newest):
            return None
        return self._known

    def _pass(self, nova: Nova, known: Snapshot | None) -> Snapshot:
        began_s = self._clock.monotonic_s()
        found, cut = _pages(nova, since(known.newest) if known else "")
        untold = ended_untold(known, found) if known else frozenset[str]()
        if known is not None and untold <= self._in_a_cell:
            changed = replace(updated(known, found), began_s=began_s)
            self._seen = changed.servers
            return changed
        if known is not None:
            found, cut = _pages(nova, "")
        self._swept_s = began_s
        servers, lacks = remembered(found, self._seen)
        lacks |= {"": cut} if cut else {}
        self._in_a_cell = untold & servers.keys()
        newest = max((s.updated for s in found), default="")
        self._swept = replace(gathered(servers, newest, lacks), began_s=began_s)
        self._seen = servers
        return self._swept


def _pages(nova: Nova, changed_since: str) -> tuple[list[Listed], str]:
    """Return all servers, or those that changed; and why some that are hidden may be missing."""
    found: list[Listed] = []
    cut = ""
    for number in range(PAGES_MAX):
        page = nova.page(marker=found[-1].id if found else "", since=changed_since)
        found += page.servers
        if not page.more or not page.servers:
            return found, cut
        # Nova tells of those it cannot reach on its first page, and there only as far as it has room.
        hidden = any(server.hidden for server in page.servers)
        if number == 0 and not changed_since and (hidden or nova.cells_away()):
            cut = (
                "Nova cannot reach one of its cells, and its list has no room for all servers there"
            )
        if page.servers[-1].hidden:
            # There is no other, and no list goes on from one of these.
            return found, cut
    raise CloudUnavailable(f"more than {PAGES_MAX} pages of servers", sent=True)
