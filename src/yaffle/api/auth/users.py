"""The users file: `name:hash:project:roles`, read by the server, written by `yaffle user …`."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from yaffle.api.auth import passwords
from yaffle.errors import ConfigError
from yaffle.model.authz import Principal, rights_of

if TYPE_CHECKING:
    from pathlib import Path

    from yaffle.api.auth.passwords import Hash

SETTING: Final = "server.users_file"
USERS_MAX: Final = 10_000
WORD_MAX: Final = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A line of the user file."""

    name: str
    hash: Hash
    project: str
    roles: tuple[str, ...]

    def __post_init__(self) -> None:
        """Raise ValueError for what a line cannot carry."""
        for what, word in (("name", self.name), ("project", self.project)):
            if not _usable(word):
                raise ValueError(
                    f"has a {what} that is not 1 to {WORD_MAX} printable characters without"
                    " a colon, and without blanks around it"
                )
        if self.name.startswith("#"):
            raise ValueError("has a name that would be a comment")
        rights_of(self.roles)

    @property
    def who(self) -> Principal:
        """The principal of this user."""
        return Principal(user=self.name, project=self.project, rights=rights_of(self.roles))

    def __str__(self) -> str:
        """Return the line."""
        return f"{self.name}:{self.hash}:{self.project}:{','.join(self.roles)}"


class Users:
    """The people of a file, asked in a way that does not tell who is among them."""

    def __init__(self, people: Sequence[User]) -> None:
        self._people: Mapping[str, User] = {user.name: user for user in people}
        self._secret = secrets.token_bytes(32)
        costs = [user.hash.cost for user in people] or [passwords.DEFAULT]
        # One for each line: whoever is not here costs what somebody who is here costs.
        self._decoys = [passwords.decoy(cost) for cost in costs]

    def of(self, name: str) -> User | None:
        """Return who has that name."""
        return self._people.get(name)

    def who_of(self, name: str, password: str) -> Principal | None:
        """Return who that is, or None; always takes one scrypt, so call it in a thread."""
        user = self._people.get(name)
        fits = (self._decoy(name) if user is None else user.hash).fits(password)
        return user.who if user is not None and fits else None

    def _decoy(self, name: str) -> Hash:
        # Always the same one for a name: a cost that changed would give the decoy away.
        digest = hmac.digest(self._secret, name.encode(), hashlib.sha256)
        return self._decoys[int.from_bytes(digest[:8]) % len(self._decoys)]


def parsed(path: Path, text: str) -> tuple[User, ...]:
    """Return the people of a file, none for an empty one; raise ConfigError naming the line."""
    found: dict[str, User] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not _is_entry(line):
            continue
        where = f"{SETTING} = {path}: line {number}"
        try:
            user = _user(line)
        except ValueError as fault:
            raise ConfigError(f"{where} {fault}") from None
        if user.name in found:
            raise ConfigError(f"{where} has the name {user.name!r} a second time")
        found[user.name] = user
    if len(found) > USERS_MAX:
        raise ConfigError(f"{SETTING} = {path}: it holds more than {USERS_MAX} users")
    return tuple(found.values())


def with_user(text: str, user: User) -> str:
    """Return the text with that user in place of the one of that name, or at its end."""
    lines = text.splitlines()
    place = _place(lines, user.name)
    if place is None:
        lines.append(str(user))
    else:
        lines[place] = str(user)
    return "".join(f"{line}\n" for line in lines)


def without_user(text: str, name: str) -> str:
    """Return the text without the user of that name; comments and order stay."""
    lines = text.splitlines()
    place = _place(lines, name)
    if place is not None:
        del lines[place]
    return "".join(f"{line}\n" for line in lines)


def with_password(user: User, password: str) -> User:
    """Return the user with another password."""
    return replace(user, hash=passwords.hashed(password))


def _place(lines: Sequence[str], name: str) -> int | None:
    for place, line in enumerate(lines):
        if _is_entry(line) and line.strip().partition(":")[0] == name:
            return place
    return None


def _is_entry(line: str) -> bool:
    return bool(line.strip()) and not line.strip().startswith("#")


def _user(line: str) -> User:
    parts = line.strip().split(":")
    if len(parts) != 4:
        raise ValueError(
            "is no `name:hash:project:roles`; remove the line,"
            " `yaffle user add NAME --file FILE` writes one"
        )
    name, text, project, roles = parts
    return User(
        name=name, hash=passwords.read(text), project=project, roles=tuple(roles.split(","))
    )


def _usable(word: str) -> bool:
    return (
        1 <= len(word) <= WORD_MAX
        and word.isprintable()
        and ":" not in word
        and word == word.strip()
    )
