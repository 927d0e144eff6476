"""Event checks: what a balancer logs brings the next look at a server forward, and no more.

A line is somebody's word (over UDP anybody's), so that what counts is always what the balancer says
when it is asked. An early look is told only where it is news: an answer other than the last one. So
nobody can, by telling the same again and again, complete a `fall` or a `rise` that polls have not.
One exception: a DOWN that came through a socket which only the balancer may write to, and which it
bears out itself when asked, is HAProxy's own `fall`, and enough at once (design/failure#health).

One look a balancer and second at most, for all watches and servers together; what waits for it is a set
of servers and not a queue of lines.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import structlog

from yaffle.core.health.check_codes import judge
from yaffle.drivers.detectors.load_balancer.answers import Answer, Said, observed, said
from yaffle.drivers.detectors.load_balancer.settings import AnyBalancer, Balancer
from yaffle.drivers.detectors.load_balancer.syslog_listener import SyslogListener
from yaffle.drivers.detectors.load_balancer.syslog_parser import read
from yaffle.integrations.cancellation import cancellable
from yaffle.model.health import Observation, Outcome
from yaffle.model.timing import status_check_s
from yaffle.ports.detector import ListenerStatus as Told

if TYPE_CHECKING:
    from yaffle.drivers.detectors.load_balancer.balancers import Balancers
    from yaffle.model.ids import ModeKey, NodeId
    from yaffle.model.operations import Target
    from yaffle.model.policy import DetectionMode
    from yaffle.ports.clock import Clock
    from yaffle.ports.detector import Sink

log = structlog.get_logger(__name__)

COUNTS: Final = ("woke", "of_nobody", "no_event", "unexpected_sender", "too_long", "dropped")
"""What a datagram can come to; a metric's label."""
GATHER_S: Final = 0.05
"""How long the first line waits for company."""
GAP_S: Final = 1.0
"""Between two early looks at one balancer."""
LOOKS: Final = 3
"""At a pool that something was heard of, until the balancer answers; then polls have to."""
SERVERS_MAX: Final = 1000
"""Servers of one pool that wait for a look; of what is beyond, polls tell."""
AGAIN_S: Final = 1.0
"""After a bug of ours has ended listening."""
OLD_S: Final = 5.0
"""After we were blind: what lay in the socket meanwhile has been read by then."""
MISSED_MAX: Final = 3
"""Changes that polls found, and no line told of, before we say that something is wrong."""

Place = tuple[str, str]
"""Balancer and pool."""


@dataclass(slots=True, kw_only=True, eq=False)
class Listener:
    """A mode of a watch."""

    targets: Sequence[Target]
    mode: DetectionMode
    interval_s: float
    sink: Sink
    place: Place | None = None
    """Whose lines are about it; None while nobody knows."""
    last: dict[NodeId, Outcome] = field(default_factory=dict)
    """What was told of each node last."""
    ticket: int = 0
    """Of the newest look that was told."""
    firm_s: float = 0.0
    """Until then no line is enough at once: it may have waited while we were blind."""
    live: bool = True


@dataclass(slots=True, kw_only=True)
class Standing:
    """Listener status of one balancer."""

    heard: int = 0
    missed: int = 0
    """Changes that polls found since anything was heard."""


class EventChecks:
    """Owned by one task, which begins with the first watch and ends with the last."""

    def __init__(
        self, configured: Mapping[str, AnyBalancer], balancers: Balancers, clock: Clock
    ) -> None:
        self.counts: Counter[str] = Counter(dict.fromkeys(COUNTS, 0))
        self._balancers, self._clock = balancers, clock
        self._configured = {
            name: one
            for name, one in configured.items()
            if isinstance(one, Balancer) and one.events
        }
        self._standings = {name: Standing() for name in self._configured}
        self._syslogs: list[tuple[Balancer, SyslogListener]] = []
        self._listeners: dict[str, Listener] = {}
        self._by_node: dict[tuple[NodeId, ModeKey], Listener] = {}
        self._by_place: dict[Place, dict[int, Listener]] = {}
        self._names: dict[Place, frozenset[str]] = {}
        """The servers of each pool that is watched, as the last answer named them."""
        self._due: dict[Place, dict[str, bool]] = {}
        """Servers to look at, and whether a DOWN of theirs may be enough."""
        self._in_vain: Counter[Place] = Counter()
        """Looks in a row that nobody has answered."""
        self._under_way: set[str] = set()
        """Balancers that are being looked at."""
        self._wakeup = asyncio.Event()
        self._tickets = itertools.count(1)
        self._owner: asyncio.Task[None] | None = None

    # --- what the engine says ------------------------------------------------------------------

    def listen(
        self,
        watch_id: str,
        targets: Sequence[Target],
        mode: DetectionMode,
        interval_s: float,
        sink: Sink,
        place: Place | None,
    ) -> None:
        """See `ports.SupportsEventHints`; `place` is None where only a poll can tell which pool it is."""
        one = self._listeners.get(watch_id)
        if one is None or one.mode != mode:
            self._drop(watch_id)
            one = Listener(targets=targets, mode=mode, interval_s=interval_s, sink=sink)
            self._listeners[watch_id] = one
        for target in one.targets:
            self._by_node.pop((target.node_id, mode.key), None)
        for target in targets:
            self._by_node[target.node_id, mode.key] = one
        kept = {target.node_id for target in targets}
        one.last = {ident: seen for ident, seen in one.last.items() if ident in kept}
        one.targets, one.interval_s, one.sink = targets, interval_s, sink
        if place is not None:
            self._settle(one, place)
        owner = self._owner
        if self._configured and (owner is None or owner.done() or owner.cancelling()):
            self._own()

    def ignore(self, watch_id: str) -> None:
        """See `ports.SupportsEventHints`."""
        self._drop(watch_id)
        if not self._listeners and self._owner is not None:
            self._owner.cancel()
            self._due.clear()

    def forget(self, watch_id: str) -> None:
        """Forget what is known and being looked at: it was asked too early, or may be no longer so."""
        one = self._listeners.get(watch_id)
        if one is not None:
            one.ticket = next(self._tickets)
            one.firm_s = self._clock.monotonic_s() + OLD_S
            one.last.clear()

    def _drop(self, watch_id: str) -> None:
        one = self._listeners.pop(watch_id, None)
        if one is None:
            return
        one.live = False
        self._settle(one, None)
        for target in one.targets:
            self._by_node.pop((target.node_id, one.mode.key), None)

    def _settle(self, one: Listener, place: Place | None) -> None:
        """Let the listener be woken by lines about that pool, and by no other."""
        if one.place == place:
            return
        if one.place is not None and (others := self._by_place.get(one.place)) is not None:
            others.pop(id(one), None)
            if not others:
                del self._by_place[one.place]
                self._names.pop(one.place, None)
                self._due.pop(one.place, None)
                self._in_vain.pop(one.place, None)
        one.place = place
        if place is not None:
            self._by_place.setdefault(place, {})[id(one)] = one

    # --- what polls say ------------------------------------------------------------------------

    def ticket(self) -> int:
        """Return the number of a look that begins now."""
        return next(self._tickets)

    def polled(
        self, ticket: int, place: Place, answer: Answer, seen: Sequence[Observation]
    ) -> None:
        """Note what the engine is being told, if it has asked about a whole watch."""
        if place[0] not in self._configured or not seen:
            return
        listener = self._by_node.get((seen[0].node_id, seen[0].mode))
        # About one node it asks before it acts, and that is no poll.
        if listener is None or [t.node_id for t in listener.targets] != [o.node_id for o in seen]:
            return
        self._settle(listener, place)
        listener.ticket = max(listener.ticket, ticket)
        standing = self._standings[place[0]]
        for one in seen:
            standing.missed += _is_change(listener.last.get(one.node_id), one.outcome)
            listener.last[one.node_id] = one.outcome
        if answer.names is not None:
            self._names[place] = answer.names

    def unfound(self, targets: Sequence[Target], mode: DetectionMode) -> None:
        """Their pool was found, and is not theirs for certain any more: no line is about them."""
        listener = self._by_node.get((targets[0].node_id, mode.key))
        if listener is not None:
            self._settle(listener, None)

    def listeners(self) -> Sequence[Told]:
        """Return every place where we listen, and how well."""
        return [self._told(balancer, syslog) for balancer, syslog in self._syslogs]

    def _told(self, balancer: Balancer, syslog: SyslogListener) -> Told:
        name, standing = f"{balancer.name} at {syslog.place.words}", self._standings[balancer.name]
        if syslog.fault:
            advice = "Polls go on. Free the place, or give `events` another; it is tried again."
            return Told(name=name, detail="not listening", fault=syslog.fault, advice=advice)
        detail = f"{standing.heard} lines heard"
        if standing.missed >= (MISSED_MAX if standing.heard else 1):
            since = "since the last line" if standing.heard else "and no line was ever heard"
            fault = f"{standing.missed} changes were found by polls {since}"
            advice = (
                f"Let HAProxy log there: `log {syslog.place.words} local0 notice` in the backend's"
                " section, or in `global` with `log global` in `defaults`."
            )
            return Told(name=name, detail=detail, fault=fault, advice=advice)
        return Told(name=name, detail=detail)

    # --- what is heard -------------------------------------------------------------------------

    def hear(self, balancer: str, data: bytes, *, trusted: bool) -> None:
        """Take one datagram; never waits, never raises."""
        line = read(data)
        if line is None:
            self.counts["no_event"] += 1
            return
        place = balancer, line.pool
        names = self._names.get(place)
        if place not in self._by_place or (names is not None and line.server not in names):
            self.counts["of_nobody"] += 1
            return
        self.counts["woke"] += 1
        standing = self._standings[balancer]
        standing.heard, standing.missed = standing.heard + 1, 0
        self._want(place, line.server, enough=trusted and line.down)

    def _want(self, place: Place, server: str, *, enough: bool) -> None:
        due = self._due.setdefault(place, {})
        if server in due or len(due) < SERVERS_MAX:
            # UP after DOWN takes nothing back: what it is now, the look will say.
            due[server] = due.get(server, False) or enough
            self._wakeup.set()

    # --- what runs -----------------------------------------------------------------------------

    def _own(self, *, after_s: float = 0.0) -> None:
        loop = asyncio.get_running_loop()
        run = self._run(self._owner, after_s)
        self._owner = loop.create_task(run, name="load balancer events")
        self._owner.add_done_callback(self._ended)

    def _ended(self, owner: asyncio.Task[None]) -> None:
        if owner.cancelled() or owner is not self._owner:
            return
        log.error("load balancer events ended, and begin anew", exc_info=owner.exception())
        self._own(after_s=AGAIN_S)

    async def _run(self, before: asyncio.Task[None] | None, after_s: float) -> None:
        if before is not None and not before.done():
            await asyncio.wait([before])  # it still holds the places
        if after_s:
            await self._clock.sleep(after_s)
        self._under_way.clear()
        self._syslogs = [
            (one, self._syslog(one, n)) for one, n in _places(self._configured.values())
        ]
        try:
            # A socket that fails as we are cancelled must not begin anew what nobody listens to.
            await cancellable(self._hear_all())
        finally:
            self._syslogs = []

    async def _hear_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            for balancer, syslog in self._syslogs:
                group.create_task(syslog.run(), name=f"events of {balancer.name}")
            await self._keep_looking(group)

    def _syslog(self, balancer: Balancer, number: int) -> SyslogListener:
        place = balancer.events[number]
        # Who may write to a file the file system knows; who has sent a datagram, nobody.
        trusted = bool(place.path)
        return SyslogListener(
            place,
            () if trusted else balancer.events_from,
            clock=self._clock,
            hear=lambda data: self.hear(balancer.name, data, trusted=trusted),
            counts=self.counts,
        )

    async def _keep_looking(self, group: asyncio.TaskGroup) -> None:
        while True:
            await self._wakeup.wait()
            await self._clock.sleep(GATHER_S)
            self._wakeup.clear()
            for place in list(self._due):
                if place[0] in self._under_way:
                    continue
                self._under_way.add(place[0])
                servers = self._due.pop(place)
                group.create_task(self._look(place, servers), name=f"look at {'/'.join(place)}")

    async def _look(self, place: Place, servers: Mapping[str, bool]) -> None:
        """Look once at a pool, and be done no sooner than its balancer may be asked again."""
        try:
            began_s = self._clock.monotonic_s()
            if await self._look_now(place, servers, began_s):
                self._in_vain.pop(place, None)
            else:
                self._look_again(place, servers, began_s)
            await self._clock.sleep(GAP_S)
        finally:
            self._under_way.discard(place[0])
            if self._due:
                self._wakeup.set()

    def _look_again(self, place: Place, servers: Mapping[str, bool], began_s: float) -> None:
        """Let it be asked once more, behind the other pools: what was heard may still be so."""
        listeners = self._by_place.get(place, {}).values()
        self._in_vain[place] += 1
        if not listeners or self._in_vain[place] == LOOKS:
            del self._in_vain[place]
            return
        # A line that may have waited while we were blind is no firmer for waiting longer.
        firm = all(began_s >= one.firm_s for one in listeners)
        for server, enough in servers.items():
            self._want(place, server, enough=enough and firm)

    async def _look_now(self, place: Place, servers: Mapping[str, bool], began_s: float) -> bool:
        """Tell what is news; return whether the balancer has answered, or nobody wants to know."""
        listeners = list(self._by_place.get(place, {}).values())
        if not listeners:
            return True
        ticket = self.ticket()
        within_s = min(status_check_s(one.interval_s) for one in listeners)
        balancer, pool = place
        answer = await self._balancers.ask(self._configured[balancer], pool, within_s, early=True)
        took_us = round((self._clock.monotonic_s() - began_s) * 1_000_000)
        for one in listeners:
            # A poll that began after us knows better; and who was dropped is told no more.
            if one.live and one.ticket < ticket and one.place == place:
                firm = servers if began_s >= one.firm_s else dict.fromkeys(servers, False)
                at_us = self._clock.now_us()
                fresh = [
                    observed(target, one.mode, word, at_us, took_us, authoritative=enough)
                    for target, word, enough in _new_looks(one, said(one.targets, answer), firm)
                ]
                if fresh:
                    one.sink(fresh)
        return answer.names is not None or answer.is_no_pool


def _places(balancers: Iterable[Balancer]) -> Iterator[tuple[Balancer, int]]:
    for one in balancers:
        for number in range(len(one.events)):
            yield one, number


def _is_change(before: Outcome | None, after: Outcome) -> bool:
    return {before, after} in ({Outcome.PASS, Outcome.FAIL}, {Outcome.WARN, Outcome.FAIL})


def _new_looks(
    listener: Listener, seen: Sequence[Said], servers: Mapping[str, bool]
) -> Iterator[tuple[Target, Said, bool]]:
    """Yield what is worth telling, and whether it is enough at once; note it as told."""
    for target, word in zip(listener.targets, seen, strict=True):
        about = word.members & servers.keys()
        outcome = judge(word.code)
        if not about or outcome is Outcome.UNKNOWN:
            continue
        enough = outcome is Outcome.FAIL and any(servers[server] for server in about)
        if enough or listener.last.get(target.node_id) is not outcome:
            listener.last[target.node_id] = outcome
            yield target, word, enough
