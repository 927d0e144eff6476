"""HTTP basic (RFC 7617) against the users file: one scrypt for who is new, none for who polls.

Verifying is dear on purpose, so it happens off the event loop, few at a time, with a bounded queue;
guessing can delay other people's first request, never the engine or those who are remembered.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import os
import secrets
from collections import Counter
from typing import TYPE_CHECKING, ClassVar, Final

import structlog

from yaffle.api.identity import users
from yaffle.api.identity.port import HEADER_MAX, Given, Known
from yaffle.api.identity.private_file import Watched
from yaffle.api.identity.users import Users
from yaffle.errors import DependencyError

if TYPE_CHECKING:
    from pathlib import Path

    from yaffle.api.identity.port import Authenticator
    from yaffle.model.rights import Who
    from yaffle.ports import Clock

log = structlog.get_logger()

REMEMBER_S: Final = 60.0
REFUSE_S: Final = 5.0
"""A client that polls with an old password costs one scrypt in this time, too."""
REMEMBERED_MAX: Final = 4096
WAIT_S: Final = 10.0
WAITING_MAX: Final = 32
WAITING_OF_PEER_MAX: Final = 8
PARALLEL: Final = max(1, (os.cpu_count() or 1) // 2)


class BasicUsers:
    """Knows people by the names and passwords of `server.users_file`."""

    challenge: ClassVar[str] = 'Basic realm="yaffle", charset="UTF-8"'

    def __init__(self, path: Path, clock: Clock) -> None:
        """Read the file; raise ConfigError where it is not private, or holds what is no user."""

        def parse(text: str) -> Users:
            return Users(users.parsed(path, text))

        self._file = Watched(path, parse, setting=users.SETTING, clock=clock)
        self._memory = _Memory(clock)
        self._queue = _Queue()

    async def who(self, given: Given) -> Known | None:
        """Return who has that password; raise DependencyError where too many ask at once."""
        said = _decoded(given.authorization)
        if said is None:
            return None
        present = await self._file.fresh()
        self._memory.belongs_to(present)
        key = self._memory.key(given.authorization)
        found, who = self._memory.get(key)
        while not found:
            # Whoever asks the same at the same time is answered by the same scrypt.
            if await self._queue.first(key, given.peer):
                try:
                    who = await self._queue.run(present, *said)
                    if who is None:
                        log.warning("password refused", user=said[0][:255], peer=given.peer)
                    self._memory.put(present, key, who)
                finally:
                    self._queue.done(key, given.peer)
                break
            found, who = self._memory.get(key)
        return None if who is None else Known(who=who)


class _Queue:
    """Bounded: in how many run, in how many wait, and in how many of those one address has."""

    def __init__(self) -> None:
        self._running = asyncio.Semaphore(PARALLEL)
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

    async def run(self, present: Users, name: str, password: str) -> Who | None:
        """Try the password when it is its turn."""
        try:
            async with asyncio.timeout(WAIT_S):
                await self._running.acquire()
        except TimeoutError:
            raise _busy() from None
        try:
            return await asyncio.to_thread(present.who_of, name, password)
        finally:
            self._running.release()

    def done(self, key: bytes, peer: str) -> None:
        """Give the place back."""
        self._asked.pop(key).set()
        self._of_peer -= Counter({peer: 1})


class _Memory:
    """Who was known a moment ago, by a keyed digest: the credentials themselves are not kept."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._secret = secrets.token_bytes(32)
        self._of: Users | None = None
        self._known: dict[bytes, tuple[float, Who]] = {}
        self._refused: dict[bytes, float] = {}

    def belongs_to(self, present: Users) -> None:
        """Forget everything when the file has changed: a removed person is out at once."""
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

    def put(self, present: Users, key: bytes, who: Who | None) -> None:
        """Remember, unless the file has changed while the password was tried."""
        if present is not self._of:
            return
        now_s = self._clock.monotonic_s()
        # Apart: a flood of wrong passwords must not push out those who are known.
        if who is None:
            _make_room(self._refused)
            self._refused[key] = now_s + REFUSE_S
        else:
            _make_room(self._known)
            self._known[key] = (now_s + REMEMBER_S, who)


def _make_room(memory: dict[bytes, float] | dict[bytes, tuple[float, Who]]) -> None:
    while len(memory) >= REMEMBERED_MAX:
        del memory[next(iter(memory))]


def _decoded(authorization: str) -> tuple[str, str] | None:
    """Return name and password; None for another scheme and for what is no UTF-8 or base64."""
    scheme, _, text = authorization.partition(" ")
    if scheme.lower() != "basic" or len(text) > HEADER_MAX:
        return None
    try:
        name, colon, password = (
            base64.b64decode(text.strip(), validate=True).decode().partition(":")
        )
    except (binascii.Error, ValueError):
        return None
    return (name, password) if colon else None


def _busy() -> DependencyError:
    return DependencyError("too many sign-ins at once; try again in a second")


if TYPE_CHECKING:
    _conforms: type[Authenticator] = BasicUsers
