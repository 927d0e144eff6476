"""Turns everything in the prober: epoll, the timer wheel, the places for connections, and its own doubt.

The loop measures how long it did not look (`lost_s`). A short loss is given back to the checks in
flight by their timeouts; after a long one (SIGSTOP, suspend, starvation) every check in flight is
ended as X-LATE, before any event or timer is believed: what we missed is unknown, never a failure.
"""

from __future__ import annotations

import functools
import select
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Protocol

from yaffle.core.addresses import AddressRules, refusal
from yaffle.prober.head_cache import Heads
from yaffle.prober.resolver import Resolver
from yaffle.prober.sockets import Handler, Sockets
from yaffle.prober.tls import Contexts
from yaffle.prober.wheel import Wheel

if TYPE_CHECKING:
    from collections.abc import Callable

LATE_S: Final = 0.5
"""Not having looked for longer than this makes everything in flight unknown."""
SLACK_S: Final = 0.02
"""Lateness below this is the noise of any machine."""
LOOK_S: Final = 0.02
"""With checks in flight we look this often: a freeze shorter than a wait would go unnoticed."""
IDLE_S: Final = 0.25
SOCKETS_MAX: Final = 2_000
EVENTS_MAX: Final = 512
"""Handled at a time, about 10 ms of work, so that timers have their turn too."""
_REVIEW_S: Final = 1e-5
"""Per attempt in flight: bounds what looking through their deadlines costs to 1 % of the time."""

_READABLE: Final = select.EPOLLIN

now_s: Final = functools.partial(time.clock_gettime, time.CLOCK_BOOTTIME)
"""Seconds that also count while the machine is suspended."""


class InFlight(Protocol):
    """An attempt, as the loop sees it."""

    deadline: float
    """When its time is up, on the loop's clock."""

    def time_up(self) -> None:
        """Called at a look around after the deadline: end, or set another deadline."""
        ...

    def was_late(self, lost_s: float) -> None:
        """End as X-LATE."""
        ...


class Waiter(Protocol):
    """A check that waits for a place."""

    def place_free(self) -> None:
        """Start the attempt now."""
        ...


class Gate:
    """The address rules with a memory: judging an address anew costs more than connecting to it."""

    def __init__(self, rules: AddressRules) -> None:
        self._rules = rules
        self._known: dict[str, str | None] = {}

    def refusal(self, address: str) -> str | None:
        """Return why this address may not be spoken to, or None."""
        known = self._known
        try:
            return known[address]
        except KeyError:
            if len(known) >= 50_000:
                known.clear()
            why = known[address] = refusal(self._rules, address)
            return why


class Loop:
    """The prober's event loop, in one thread; nothing in here blocks but `epoll.poll`."""

    def __init__(self) -> None:
        self.now = now_s()
        self.wall_us = time.time_ns() // 1000
        """When the events that are being handled were fetched, by the clock on the wall."""
        self.wheel = Wheel(self.now)
        self.epoll = select.epoll()
        self.handlers: dict[int, Handler] = {}
        self.sockets = Sockets(self.epoll, self.handlers)
        self.heads = Heads()
        self.resolver = Resolver(now_s)
        self.gate = Gate(AddressRules())
        self.tls = Contexts()
        self.attempts: set[InFlight] = set()
        self.waiting: OrderedDict[Waiter, None] = OrderedDict()
        self.sockets_max = SOCKETS_MAX
        self.idle_sockets = 0
        self.stopping = False
        self.lost_s = 0.0
        self.lag_s_max = 0.0
        self._review_at = 0.0
        self.on_late: Callable[[float], None] = lambda _lost_s: None
        self.handlers[self.resolver.fd] = _Collector(self.resolver)
        self.epoll.register(self.resolver.fd, _READABLE)

    def run(self) -> None:
        """Turn until `stopping`."""
        while not self.stopping:
            self.turn()

    def turn(self) -> None:
        """Wait for events or the next timer, then handle both: events first."""
        wait_s = self.wheel.idle_s(self.now, LOOK_S if self.attempts else IDLE_S)
        events = self.epoll.poll(wait_s, EVENTS_MAX)
        now = now_s()
        lag_s = now - self.now - wait_s
        self.now = now
        self.wall_us = time.time_ns() // 1000
        if lag_s > SLACK_S:
            self._lost(lag_s)
        handlers = self.handlers
        for fd, mask in events:
            handler = handlers.get(fd)
            if handler is not None:
                handler.on_event(mask)
        # Not while there are more events: one of them may be the answer that is missed.
        if now >= self._review_at and len(events) < EVENTS_MAX:
            self._review(now)
        self.wheel.advance(now)
        if self.waiting:
            self._give_places()

    def _review(self, now: float) -> None:
        """End what has waited too long.

        Attempts in flight are few, for most are answered within a turn or two: looking through
        them now and then costs less than a place on the wheel for each, taken and given back.
        """
        self._review_at = now + max(LOOK_S, len(self.attempts) * _REVIEW_S)
        for attempt in [one for one in self.attempts if one.deadline <= now]:
            # One before it may have ended it.
            if attempt in self.attempts:
                attempt.time_up()

    def _give_places(self) -> None:
        # Here and not where an attempt ends: one that ends at once would call the next, and so on.
        while self.waiting and len(self.attempts) < self.sockets_max:
            waiter, _ = self.waiting.popitem(last=False)
            waiter.place_free()

    def _lost(self, lag_s: float) -> None:
        self.lost_s += lag_s
        self.lag_s_max = max(self.lag_s_max, lag_s)
        if lag_s > LATE_S:
            for attempt in list(self.attempts):
                attempt.was_late(lag_s)
            self.on_late(lag_s)

    def has_place(self) -> bool:
        """Whether there is a place for one more attempt; who finds none waits in `waiting`."""
        return len(self.attempts) < self.sockets_max and not self.waiting

    def leave_queue(self, waiter: Waiter) -> None:
        """Give up the place in the queue."""
        self.waiting.pop(waiter, None)


class _Collector:
    __slots__ = ("_resolver",)

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver

    def on_event(self, mask: int) -> None:
        self._resolver.collect()
