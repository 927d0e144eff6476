"""Bearer tokens from a file, compared blindly: `name:token project=web roles=member,override`."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from yaffle.api.auth.port import HEADER_MAX, Given, Known
from yaffle.api.auth.secure_file import Watched
from yaffle.errors import ConfigError
from yaffle.model.authz import DEFAULT_PROJECT, Principal, Right, rights_of

if TYPE_CHECKING:
    from pathlib import Path

    from yaffle.api.auth.port import Authenticator
    from yaffle.ports import Clock

TOKEN_MIN: Final = 16
TOKENS_MAX: Final = 1000
NAME_MAX: Final = 255
SETTING: Final = "server.token_file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The tokens of a file: digest → whose it is."""

    people: tuple[tuple[bytes, Principal], ...]

    def who_of(self, token: bytes) -> Principal | None:
        """Return whose token it is, or None; takes as long for every wrong one as for a right one."""
        given = hashlib.sha256(token).digest()
        found: Principal | None = None
        for digest, who in self.people:
            if hmac.compare_digest(digest, given):
                found = who
        return found


class BearerTokens:
    """Knows people by the tokens of `server.token_file`."""

    challenge: ClassVar[str] = 'Bearer realm="yaffle"'

    def __init__(self, path: Path, clock: Clock) -> None:
        """Read the file; raise ConfigError where it is not private, or holds what is no token."""
        self._file = Watched(path, lambda text: parsed(path, text), setting=SETTING, clock=clock)

    async def who(self, given: Given) -> Known | None:
        """Return whose token `Authorization: Bearer …` holds."""
        scheme, _, token = given.authorization.partition(" ")
        if scheme.lower() != "bearer" or len(token) > HEADER_MAX:
            return None
        tokens = await self._file.fresh()
        who = tokens.who_of(token.strip().encode("latin-1"))
        # A browser never sends a token that no script has given it.
        return None if who is None else Known(who=who)


def parsed(path: Path, text: str) -> Tokens:
    """Return the tokens of a file; raise ConfigError naming the line, never the token."""
    people: list[tuple[bytes, Principal]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        entry = line.strip()
        if entry and not entry.startswith("#"):
            try:
                people.append(_entry(entry, f"token on line {number}"))
            except ValueError as fault:
                raise ConfigError(f"{SETTING} = {path}: line {number} {fault}") from None
    if not 0 < len(people) <= TOKENS_MAX:
        raise ConfigError(f"{SETTING} = {path}: it holds {len(people)} tokens")
    return Tokens(people=tuple(people))


def _entry(entry: str, nameless: str) -> tuple[bytes, Principal]:
    """Return one line's digest and person; raise ValueError saying what is wrong with the line."""
    name, colon, rest = entry.partition(":")
    if not colon:
        name, rest = nameless, entry
    token, *more = rest.split() or [""]
    if len(token) < TOKEN_MIN or not token.isprintable() or not name.strip():
        raise ValueError(
            f"is no `name:token` or `token` of at least {TOKEN_MIN} characters;"
            " make one with `openssl rand -hex 32`"
        )
    options = _options(more)
    words = options.get("roles")
    who = Principal(
        user=name.strip()[:NAME_MAX],
        project=options.get("project", DEFAULT_PROJECT),
        # Who had a token before there were roles could do everything, the global stop included.
        rights=frozenset(Right) if words is None else rights_of(words.split(",")),
    )
    return hashlib.sha256(token.encode()).digest(), who


def _options(words: list[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    for word in words:
        key, _, value = word.partition("=")
        if key not in {"project", "roles"} or not value or key in options:
            # The word may be a part of a token that was broken by a blank.
            raise ValueError("has more after the token than `project=NAME` and `roles=NAME,NAME`")
        options[key] = value[:NAME_MAX]
    return options


if TYPE_CHECKING:
    _conforms: type[Authenticator] = BearerTokens
