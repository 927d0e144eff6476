"""Who was known a moment ago, and whose turn it is to be asked for: shared by what costs to ask.

A password costs a scrypt and a Keystone token a question to another service. Either is asked once
for all who wait for the same answer, few at a time, with a bounded queue, and remembered for a while.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

from yaffle.errors import DependencyError

if TYPE_CHECKING:
    from yaffle.model.rights import Who
    from yaffle.ports import Clock

AnswerT = TypeVar("AnswerT")

REMEMBER_S: Final = 60.0
REFUSE_S: Final = 5.0
"""A client that polls with an old password costs one scrypt in this time, too."""
REMEMBERED_MAX: Final = 4096
WAIT_S: Final = 10.0
WAITING_MAX: Final = 32
WAITING_OF_PEER_MAX: Final = 8


class Turns:
    """Bounded: in how many are asked for, in how many wait, and in how many of those one peer has."""

    def __init__(self, parallel: int) -> None:
        self._running = asyncio.Semaphore(parallel)
        self._asked: dict[bytes, asyncio.Event] = {}
        self._of_peer: Counter[str] = Counter()

    async def first(self, key: bytes, peer: str) -> bool:
        """Take a place for these credentials; False after somebody else's was done."""
        present = self._asked.get(key)
        if present is not None:
            try:
                async with asyncio.timeout(WAIT_S):
                    await present.wait()
            except TimeoutError:
                raise _busy() from None
            return False
        if len(self._asked) >= WAITING_MAX or self._of_peer[peer] >= WAITING_OF_PEER_MAX:
            raise _busy()
        self._asked[key] = asyncio.Event()
        self._of_peer[peer] += 1
        return True

    async def run(self, ask: Callable[[], Awaitable[AnswerT]]) -> AnswerT:
        """Ask when it is our turn."""
        try:
            async with asyncio.timeout(WAIT_S):
                await self._running.acquire()
        except TimeoutError:
            raise _busy() from None
        try:
            return await ask()
        finally:
            self._running.release()

    def done(self, key: bytes, peer: str) -> None:
        """Give the place back."""
        self._asked.pop(key).set()
        self._of_peer -= Counter({peer: 1})


class Memory:
    """Who was known a moment ago, by a keyed digest: the credentials themselves are not kept."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._secret = secrets.token_bytes(32)
        self._of: object = None
        self._known: dict[bytes, tuple[float, Who]] = {}
        self._refused: dict[bytes, float] = {}

    def belongs_to(self, present: object) -> None:
        """Forget everything when what it rests on has changed: a removed person is out at once."""
        if present is not self._of:
            self._of = present
            self._known.clear()
            self._refused.clear()

    def key(self, authorization: str) -> bytes:
        """Return what stands for the credentials."""
        return hmac.digest(self._secret, authorization.encode("latin-1"), "sha256")

    def get(self, key: bytes) -> tuple[bool, Who | None]:
        """Return whether anything is remembered, and who it is (None: refused)."""
        now_s = self._clock.monotonic_s()
        until_s, who = self._known.get(key, (0.0, None))
        if now_s < until_s:
            return True, who
        return now_s < self._refused.get(key, 0.0), None

    def put(
        self, present: object, key: bytes, who: Who | None, *, keep_s: float = REMEMBER_S
    ) -> None:
        """Remember for `keep_s` at most, unless what it rests on has changed meanwhile."""
        if present is not self._of:
            return
        now_s = self._clock.monotonic_s()
        # Apart: a flood of wrong passwords must not push out those who are known.
        if who is None:
            _make_room(self._refused)
            self._refused[key] = now_s + REFUSE_S
        else:
            _make_room(self._known)
            self._known[key] = (now_s + min(keep_s, REMEMBER_S), who)


def _make_room(memory: dict[bytes, float] | dict[bytes, tuple[float, Who]]) -> None:
    while len(memory) >= REMEMBERED_MAX:
        del memory[next(iter(memory))]


def _busy() -> DependencyError:
    return DependencyError("too many sign-ins at once; try again in a second")
