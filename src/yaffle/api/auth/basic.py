"""HTTP basic (RFC 7617) against the users file: one scrypt for who is new, none for who polls.

Verifying is dear on purpose, so it happens off the event loop, few at a time, with a bounded queue;
guessing can delay other people's first request, never the engine or those who are remembered. Who
guessed wrong waits, by name and network, before the next guess costs anything.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
from typing import TYPE_CHECKING, ClassVar, Final

import structlog

from yaffle.api.auth import users
from yaffle.api.auth.backoff import BackOff
from yaffle.api.auth.credential_cache import Memory, Source, Turns
from yaffle.api.auth.port import HEADER_MAX, Given, Known
from yaffle.api.auth.secure_file import Watched
from yaffle.api.auth.sessions import Sessions
from yaffle.api.auth.users import Users
from yaffle.api.http.client_shares import share_of
from yaffle.config import is_loopback
from yaffle.errors import TooManyRequests

if TYPE_CHECKING:
    from pathlib import Path

    from yaffle.api.auth.port import Authenticator
    from yaffle.model.authz import Principal
    from yaffle.ports import Clock

log = structlog.get_logger()

PARALLEL: Final = max(1, (os.cpu_count() or 1) // 2)
KNOWN_S: Final = 3600.0
"""Who was right is believed for so long, unless the file changes: guessing cannot keep them out. And
a wrong password stays wrong: a program that polls with an old one makes nobody wait."""
NAME_MAX: Final = 255


class BasicUsers:
    """Knows people by the names and passwords of `server.users_file`."""

    challenge: ClassVar[str] = 'Basic realm="yaffle", charset="UTF-8"'

    def __init__(self, path: Path, clock: Clock, *, session_life_s: float) -> None:
        """Read the file; raise ConfigError where it is not private, or holds what is no user."""

        def parse(text: str) -> Users:
            return Users(users.parsed(path, text))

        self._file = Watched(path, parse, setting=users.SETTING, clock=clock)
        self._present = self._file.content
        self._memory = Memory(clock, keep_s=KNOWN_S, refuse_s=KNOWN_S)
        self._turns = Turns(PARALLEL)
        self._backoff = BackOff()
        self._clock = clock
        self.sessions = Sessions(self._file, clock, life_s=session_life_s)

    async def who(self, given: Given) -> Known | None:
        """Return who has that password.

        Raises DependencyError where too many ask at once, TooManyRequests for who guessed wrong.
        """
        said = _decoded(given.authorization)
        if said is None:
            return None
        present = await self._file.fresh()
        before, self._present = self._present, present
        self._memory.belongs_to(present, lambda who: before.of(who.user) == present.of(who.user))
        key = self._memory.key(given.authorization)
        source = Source(share_of(given.peer), said[0][:NAME_MAX])
        found, who = self._memory.get(key)
        while not found:
            self._patience(source)
            # Whoever asks the same at the same time is answered by the same scrypt.
            if await self._turns.first(key, source):
                try:
                    who = await self._turns.run(source, lambda: self._tried(present, source, said))
                    if who is None:
                        log.warning("password refused", user=source.name, peer=given.peer)
                    self._memory.put(present, key, who)
                finally:
                    self._turns.done(key, source)
                break
            found, who = self._memory.get(key)
        user = present.of(said[0])
        return None if who is None or user is None else Known(who=who, password=user.hash)

    async def _tried(
        self, present: Users, source: Source, said: tuple[str, str]
    ) -> Principal | None:
        # Again: others from there were wrong while this one waited for its turn.
        self._patience(source)
        who = await asyncio.to_thread(present.who_of, *said)
        self._turns.judged(source, good=who is not None)
        self._backoff.judged(source, self._clock.monotonic_s(), good=who is not None)
        return who

    def _patience(self, source: Source) -> None:
        if is_loopback(source.network):
            # No network: everybody on this machine, or behind a proxy that is not named.
            return
        wait_s = self._backoff.wait_s(source, self._clock.monotonic_s())
        if wait_s > 0:
            raise TooManyRequests(
                "wrong passwords came for that name from your network; try again later",
                retry_after_s=wait_s,
            )


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


if TYPE_CHECKING:
    _conforms: type[Authenticator] = BasicUsers
