"""A cache of validated credentials, which validates each once for all who wait.

A password costs a scrypt and a Keystone token a question to another service. Either is asked once
for all who wait for the same answer, few at a time, with a bounded queue, and remembered for a while.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from yaffle.api.http.request_lanes import FairQueue
from yaffle.errors import DependencyError

if TYPE_CHECKING:
    from yaffle.model.authz import Principal
    from yaffle.ports import Clock

AnswerT = TypeVar("AnswerT")
KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")

REMEMBER_S: Final = 60.0
REFUSE_S: Final = 5.0
"""A client that polls with an old token costs one question in this time, too."""
REMEMBERED_MAX: Final = 4096
WAIT_S: Final = 30.0
"""Long enough for the turn of a network whose places are all taken by somebody who guesses."""
WAITING_MAX: Final = 512
WAITING_OF_NETWORK_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a request: the name that is claimed, and the network that it comes from."""

    network: str
    name: str = ""


class Turns:
    """Few are asked for at once, networks take turns, and who failed lately waits for who did not.

    Nobody is locked out: a guess delays the next one of that name from that network, and what has
    never failed goes first, whoever guesses beside it.
    """

    def __init__(self, parallel: int) -> None:
        self._free = parallel
        self._asked: dict[bytes, asyncio.Event] = {}
        self._of_network: Counter[str] = Counter()
        self._fresh: FairQueue[asyncio.Future[None]] = FairQueue()
        self._failed: FairQueue[asyncio.Future[None]] = FairQueue()
        self._failures: dict[Source, None] = {}
        self._turn = 0

    async def first(self, key: bytes, source: Source) -> bool:
        """Take a place for these credentials; False after somebody else's was done."""
        present = self._asked.get(key)
        if present is not None:
            try:
                async with asyncio.timeout(WAIT_S):
                    await present.wait()
            except TimeoutError:
                raise _busy() from None
            return False
        of_network = self._of_network[source.network]
        if len(self._asked) >= WAITING_MAX or of_network >= WAITING_OF_NETWORK_MAX:
            raise _busy()
        self._asked[key] = asyncio.Event()
        self._of_network[source.network] += 1
        return True

    async def run(self, source: Source, ask: Callable[[], Awaitable[AnswerT]]) -> AnswerT:
        """Ask when it is our turn."""
        await self._take(source)
        try:
            return await ask()
        finally:
            self._free += 1
            self._next()

    def judged(self, source: Source, *, good: bool) -> None:
        """Note whether what came from there was right."""
        self._failures.pop(source, None)
        if not good:
            make_room(self._failures)
            self._failures[source] = None

    def done(self, key: bytes, source: Source) -> None:
        """Give the place back."""
        self._asked.pop(key).set()
        self._of_network -= Counter({source.network: 1})

    async def _take(self, source: Source) -> None:
        queue = self._failed if source in self._failures else self._fresh
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.push(source.network, place)
        self._next()
        try:
            async with asyncio.timeout(WAIT_S):
                await place
        except BaseException as error:
            if place.done() and not place.cancelled():
                self._free += 1
            queue.remove(source.network, place)
            self._next()
            if isinstance(error, TimeoutError):
                raise _busy() from None
            raise

    def _next(self) -> None:
        while self._free:
            # Every fourth turn is theirs who failed: a typing error must not keep anybody out for good.
            self._turn = (self._turn + 1) % 4
            first, then = (self._fresh, self._failed) if self._turn else (self._failed, self._fresh)
            found = first.pop() or then.pop()
            if found is None:
                return
            if not found[1].done():
                self._free -= 1
                found[1].set_result(None)


class Memory:
    """A cache of known callers, by a keyed digest: the credentials themselves are not kept."""

    def __init__(
        self, clock: Clock, *, keep_s: float = REMEMBER_S, refuse_s: float = REFUSE_S
    ) -> None:
        """`keep_s`, `refuse_s`: for how long, at most, nobody is asked again who it is, or is not."""
        self._clock = clock
        self._keep_s = keep_s
        self._refuse_s = refuse_s
        self._secret = secrets.token_bytes(32)
        self._of: object = None
        self._known: dict[bytes, tuple[float, Principal]] = {}
        self._refused: dict[bytes, float] = {}

    def belongs_to(
        self, present: object, still: Callable[[Principal], bool] = lambda _: False
    ) -> None:
        """Forget, when what it rests on has changed, all of whom it is not `still` true.

        A removed person is out at once; others need not prove anew who they are.
        """
        if present is not self._of:
            self._of = present
            self._known = {key: one for key, one in self._known.items() if still(one[1])}
            self._refused.clear()

    def key(self, authorization: str) -> bytes:
        """Return what stands for the credentials."""
        return hmac.digest(self._secret, authorization.encode("latin-1"), "sha256")

    def get(self, key: bytes) -> tuple[bool, Principal | None]:
        """Return whether anything is remembered, and who it is (None: refused)."""
        now_s = self._clock.monotonic_s()
        until_s, who = self._known.get(key, (0.0, None))
        if now_s < until_s:
            return True, who
        return now_s < self._refused.get(key, 0.0), None

    def put(
        self, present: object, key: bytes, who: Principal | None, *, keep_s: float | None = None
    ) -> None:
        """Remember for `keep_s` at most, unless what it rests on has changed meanwhile."""
        if present is not self._of:
            return
        now_s = self._clock.monotonic_s()
        # Apart: a flood of wrong passwords must not push out those who are known.
        if who is None:
            make_room(self._refused)
            self._refused[key] = now_s + self._refuse_s
        else:
            make_room(self._known)
            kept_s = self._keep_s if keep_s is None else min(keep_s, self._keep_s)
            self._known[key] = (now_s + kept_s, who)


def make_room(memory: dict[KeyT, ValueT]) -> None:
    """Forget the oldest for one more."""
    while len(memory) >= REMEMBERED_MAX:
        del memory[next(iter(memory))]


def _busy() -> DependencyError:
    return DependencyError("too many sign-ins at once; try again in a second")
