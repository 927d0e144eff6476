"""Schedules requests: few at once, callers in turn, and lanes of their own for emergencies.

A few requests begin in each turn of the event loop, and a few are carried out at once, whatever comes in,
so that the loop has time for probes, stop and maintenance; the rest waits, each caller in a queue of its
own, or is told to come again.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from yaffle.api.http.client_shares import Proxies, share_of
from yaffle.errors import DependencyError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from yaffle.api.http.connection import Connection

T = TypeVar("T")

STARTS: Final = 8
"""Requests that begin in one turn of the loop."""
WAIT_S: Final = 10.0
PROBES: Final = frozenset({"/health", "/livez", "/readyz"})
CONTROL: Final = ("/yaffle/v1/stop", "/yaffle/v1/maintenance")


class FairQueue(Generic[T]):
    """First come, first served for each caller; one after the other among callers."""

    def __init__(self) -> None:
        self._of: dict[str, deque[T]] = {}
        self._count = 0

    def __len__(self) -> int:
        """Return how many wait."""
        return self._count

    def of(self, caller: str) -> int:
        """Return how many of a caller's wait."""
        return len(self._of.get(caller, ()))

    def push(self, caller: str, item: T) -> None:
        """Have something wait."""
        self._of.setdefault(caller, deque()).append(item)
        self._count += 1

    def pop(self, may: Callable[[str], bool] = lambda _: True) -> tuple[str, T] | None:
        """Return who is next among those who may; that caller is last from now on."""
        caller = next(filter(may, self._of), None)
        if caller is None:
            return None
        items = self._of.pop(caller)
        item = items.popleft()
        if items:
            self._of[caller] = items
        self._count -= 1
        return caller, item

    def remove(self, caller: str, item: T) -> None:
        """Take back what waits no more; nothing where it is not there."""
        items = self._of.get(caller)
        if items is not None and item in items:
            items.remove(item)
            self._count -= 1
            if not items:
                del self._of[caller]


class Lane:
    """Bounded: how many are carried out at once, how many wait, and how many of those one caller has."""

    def __init__(
        self, *, at_once: int, of_one: int, waiting: int = 1024, waiting_of_one: int = 256
    ) -> None:
        self._at_once = at_once
        self._of_one = of_one
        self._waiting_max = waiting
        self._waiting_of_one = waiting_of_one
        self._running: Counter[str] = Counter()
        self._waiting: FairQueue[asyncio.Future[None]] = FairQueue()

    @asynccontextmanager
    async def place(self, caller: str) -> AsyncIterator[None]:
        """Hold a place; raise DependencyError where there is none for too long."""
        await self.enter(caller)
        try:
            yield
        finally:
            self.leave(caller)

    async def enter(self, caller: str, *, patient: bool = False) -> None:
        """Wait for a place; `patient` is who had one before, and must not be refused now."""
        if self._has_room(caller) and not self._waiting.of(caller):
            self._running[caller] += 1
            return
        if not patient and (
            len(self._waiting) >= self._waiting_max
            or self._waiting.of(caller) >= self._waiting_of_one
        ):
            raise _busy()
        place = asyncio.get_running_loop().create_future()
        self._waiting.push(caller, place)
        try:
            async with asyncio.timeout(None if patient else WAIT_S):
                await place
        except BaseException as error:
            if place.done() and not place.cancelled():
                self.leave(caller)
            self._waiting.remove(caller, place)
            if isinstance(error, TimeoutError):
                raise _busy() from None
            raise

    def leave(self, caller: str) -> None:
        """Give the place to who is next."""
        self._running -= Counter({caller: 1})
        while (found := self._waiting.pop(self._has_room)) is not None:
            following, place = found
            if not place.done():
                self._running[following] += 1
                place.set_result(None)

    def _has_room(self, caller: str) -> bool:
        return self._running.total() < self._at_once and self._running[caller] < self._of_one


class Lanes:
    """Lanes for requests: one for most, and one each for what must be answered at any time."""

    def __init__(self) -> None:
        self._ordinary = Lane(at_once=16, of_one=8)
        self._health = Lane(at_once=2, of_one=1)
        self._control = Lane(at_once=4, of_one=2)

    def of(self, path: str) -> Lane:
        """Return the lane of a path."""
        if path in PROBES:
            return self._health
        return self._control if is_urgent(path) else self._ordinary


def is_urgent(path: str) -> bool:
    """Whether a path is answered also when everything else has to wait: health, stop, maintenance."""
    return path in PROBES or any(path == one or path.startswith(f"{one}/") for one in CONTROL)


class Turnstile:
    """Lets few requests begin in each turn of the loop, urgent ones first, callers in turn."""

    def __init__(self, app: ASGIApp, proxies: Proxies) -> None:
        self._app = app
        self._proxies = proxies
        self._urgent: FairQueue[asyncio.Future[None]] = FairQueue()
        self._others: FairQueue[asyncio.Future[None]] = FairQueue()
        self._is_open = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request when its turn has come; `client` is then who asked the proxy, if any."""
        if scope["type"] == "http" and scope.get("client"):
            peer = scope["client"][0]
            said = [v.decode("latin-1") for k, v in scope["headers"] if k == b"x-forwarded-for"]
            caller = self._proxies.caller(peer, said)
            if caller != peer:
                scope["client"] = (caller, 0)
            await self._turn(share_of(caller), is_urgent(scope["path"]))
        await self._app(scope, receive, send)

    async def _turn(self, caller: str, urgent: bool) -> None:
        loop = asyncio.get_running_loop()
        mine = loop.create_future()
        (self._urgent if urgent else self._others).push(caller, mine)
        if not self._is_open:
            self._is_open = True
            loop.call_soon(self._let_in)
        await mine

    def _let_in(self) -> None:
        for place in range(STARTS):
            # In turn: those who ask for the urgent ones all the time must not keep the others out.
            first, then = (
                (self._urgent, self._others) if place % 2 else (self._others, self._urgent)
            )
            found = first.pop() or then.pop()
            if found is None:
                self._is_open = False
                return
            if not found[1].done():
                found[1].set_result(None)
        asyncio.get_running_loop().call_soon(self._let_in)


class Lent:
    """Sends an answer, and gives the place in the lane away as long as the client does not read."""

    def __init__(self, lane: Lane, caller: str, connection: Connection | None, send: Send) -> None:
        self._lane = lane
        self._caller = caller
        self._connection = connection
        self._send = send

    async def send(self, message: Message) -> None:
        """Send the next part."""
        if self._connection is not None and self._connection.is_unread:
            self._lane.leave(self._caller)
            try:
                await self._connection.flow.drain()
            finally:
                # Held again whatever happens: it is given back by who took it.
                await self._lane.enter(self._caller, patient=True)
        await self._send(message)


def _busy() -> DependencyError:
    return DependencyError("too many requests at once; try again in a second")
