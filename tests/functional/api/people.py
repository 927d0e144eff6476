"""People of two projects with every kind of role, and the credentials that prove who they are."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path

from tests.private import private

from yaffle.api.auth import passwords, users
from yaffle.api.auth.passwords import Cost
from yaffle.model.authz import Right, rights_of

CHEAP = Cost(ln=12, r=8, p=1)
"""The cheapest that the server accepts: 15 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Somebody with a token."""

    name: str
    project: str
    roles: str

    @property
    def rights(self) -> frozenset[Right]:
        return rights_of(self.roles.split(","))

    @property
    def token(self) -> str:
        return f"{self.name}-0123456789abcdef"

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    @property
    def line(self) -> str:
        return f"{self.name}:{self.token} project={self.project} roles={self.roles}"


PEOPLE = {
    person.name: person
    for person in (
        Person(name="reader", project="one", roles="reader"),
        Person(name="member", project="one", roles="member"),
        Person(name="overrider", project="one", roles="member,override"),
        Person(name="fencer", project="one", roles="member,fence"),
        Person(name="admin", project="one", roles="admin"),
        Person(name="root", project="one", roles="admin,fence,override"),
        Person(name="reader-of-two", project="two", roles="reader"),
        Person(name="admin-of-two", project="two", roles="admin"),
        Person(name="member-of-two", project="two", roles="member,fence,override"),
    )
}


def token_file(folder: Path) -> Path:
    """Write everybody's token."""
    return private(folder / "tokens", "".join(f"{p.line}\n" for p in PEOPLE.values()))


def users_file(folder: Path, **known: str) -> Path:
    """Write users of project `one`, each a member with the password given, hashed cheaply."""
    people = [
        users.User(name=name, hash=passwords.hashed(word, CHEAP), project="one", roles=("member",))
        for name, word in known.items()
    ]
    return private(folder / "users", "".join(f"{user}\n" for user in people))


def basic(name: str, password: str) -> dict[str, str]:
    """Return the header of HTTP basic."""
    both = base64.b64encode(f"{name}:{password}".encode()).decode()
    return {"Authorization": f"Basic {both}"}
