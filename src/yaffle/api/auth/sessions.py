"""Sessions: a password is exchanged for a token of limited life, which costs a hash and no scrypt.

They live in the memory of the process that began them. So nothing lies anywhere of which a token could
be made, one that was ended has ended, and a restart ends them all. Where another process answers, or a
new one, the token is nobody's (401) and the password begins the next session there.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from yaffle.api.auth.port import HEADER_MAX, Given, Known
from yaffle.errors import BadRequest

if TYPE_CHECKING:
    from yaffle.api.auth.passwords import Hash
    from yaffle.api.auth.port import Authenticator
    from yaffle.api.auth.secure_file import Watched
    from yaffle.api.auth.users import Users
    from yaffle.ports import Clock

OF_USER_MAX: Final = 32
"""The oldest of somebody's sessions ends when there are more."""
TOKEN_BYTES: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class _Session:
    user: str
    password: Hash
    """What it was exchanged for: whoever changes it ends the session."""
    until_s: float


class Sessions:
    """Knows people by the tokens that their passwords were exchanged for."""

    challenge: ClassVar[str] = ""
    """None of its own: whoever has no session needs a password first."""

    def __init__(self, file: Watched[Users], clock: Clock, *, life_s: float) -> None:
        self._file = file
        self._clock = clock
        self.life_s = life_s
        self._of: dict[bytes, _Session] = {}
        """Digest of a token → whose it is, the oldest first."""

    async def who(self, given: Given) -> Known | None:
        """Return whose session it is, as the users file knows them now."""
        session = self._of.get(_digest(given.authorization))
        if session is None or self._clock.monotonic_s() >= session.until_s:
            return None
        user = (await self._file.fresh()).of(session.user)
        if user is None or user.hash != session.password:
            return None
        return Known(who=user.who)

    def begin(self, known: Known) -> str:
        """Return the token of a new session; raise BadRequest where no password has proved who asks."""
        if known.password is None:
            raise BadRequest("only a name and password (HTTP basic) are exchanged for a session")
        now_s, name = self._clock.monotonic_s(), known.who.user
        self._of = {key: one for key, one in self._of.items() if now_s < one.until_s}
        own = [key for key, one in self._of.items() if one.user == name]
        for key in own[: max(0, len(own) + 1 - OF_USER_MAX)]:
            del self._of[key]
        token = secrets.token_urlsafe(TOKEN_BYTES)
        self._of[_digest(f"Bearer {token}")] = _Session(
            user=name, password=known.password, until_s=now_s + self.life_s
        )
        return token

    def end(self, authorization: str) -> None:
        """End the session of a token; raise BadRequest where it is none."""
        if self._of.pop(_digest(authorization), None) is None:
            raise BadRequest("this request does not come with the token of a session")


def _digest(authorization: str) -> bytes:
    """Return what stands for a bearer token; of no other credentials is it one that is known."""
    scheme, _, token = authorization.partition(" ")
    is_token = scheme.lower() == "bearer" and len(token) <= HEADER_MAX
    return hashlib.sha256(token.strip().encode("latin-1")).digest() if is_token else b""


if TYPE_CHECKING:
    _conforms: type[Authenticator] = Sessions
