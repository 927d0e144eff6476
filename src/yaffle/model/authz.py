"""Principals and rights: roles stand for rights, and each verb needs one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from yaffle.errors import Forbidden

DEFAULT_PROJECT: Final = "default"
"""Whose everything is where nobody has to say who they are."""


class Right(StrEnum):
    """A right: one thing that may be allowed."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"
    """Other projects, services, settings that concern everybody."""
    FENCE = "fence"
    """Have something fenced by hand."""
    OVERRIDE = "override"
    """Lift what protects from a mistake: the global stop, a storm limit, a missing proof."""


class Role(StrEnum):
    """Role of a person in a project."""

    READER = "reader"
    MEMBER = "member"
    ADMIN = "admin"


RIGHTS: Final[Mapping[Role, frozenset[Right]]] = MappingProxyType(
    {
        Role.READER: frozenset({Right.READ}),
        Role.MEMBER: frozenset({Right.READ, Right.WRITE}),
        Role.ADMIN: frozenset({Right.READ, Right.WRITE, Right.ADMIN}),
    }
)
"""FENCE and OVERRIDE come with no role: they are given by name, to those who need them."""

GRANTED: Final[Mapping[str, frozenset[Right]]] = MappingProxyType(
    {
        **{role.value: rights for role, rights in RIGHTS.items()},
        **{right.value: frozenset({right}) for right in (Right.FENCE, Right.OVERRIDE)},
    }
)
"""Every word that a line of people may have after their project."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The one who asks, as far as this server knows."""

    user: str
    project: str = DEFAULT_PROJECT
    domain: str = ""
    rights: frozenset[Right]

    @property
    def is_admin(self) -> bool:
        """Whether other projects are open to them."""
        return Right.ADMIN in self.rights

    @property
    def by_keystone(self) -> bool:
        """Whether the project is one of the cloud's own, by its id: Keystone tells its domain, too."""
        return bool(self.domain)

    @property
    def scope(self) -> str | None:
        """The project whose objects they see; None for all of them."""
        return None if self.is_admin else self.project


LOCAL: Final = Principal(user="local user", rights=frozenset(Right))
"""Whoever can reach a loopback address that asks for no credentials."""


def rights_of(words: Iterable[str]) -> frozenset[Right]:
    """Return the rights that words like `member` and `override` stand for together.

    Raises ValueError for a word that stands for nothing, and for rights without a role: whoever
    may fence also has to be able to look.
    """
    given = list(words)
    for word in given:
        if word not in GRANTED:
            raise ValueError(f"has the role {word!r}; known: {', '.join(GRANTED)}")
    rights = frozenset[Right]().union(*(GRANTED[word] for word in given))
    if Right.READ not in rights:
        raise ValueError(f"needs one of the roles {', '.join(RIGHTS)}")
    return rights


_NO: Final = frozenset({"", "0", "false", "no", "none", "off"})
_DANGEROUS: Final[Mapping[str, Right]] = MappingProxyType(
    {"fence_compute": Right.FENCE, "force_recreate": Right.OVERRIDE}
)
"""What a person may ask of one recovery, and what that takes beyond the right to ask for it."""


def need_for_recovery(who: Principal, asked: object) -> None:
    """Raise Forbidden where what was asked of a recovery, at any depth, takes a right of its own.

    `asked`: the inputs of the action, `operation_params` among them.
    """
    if isinstance(asked, Mapping):
        for key, value in asked.items():
            right = _DANGEROUS.get(str(key).lower())
            if right is not None and str(value).strip().lower() not in _NO:
                need(who, right)
            need_for_recovery(who, value)
    elif isinstance(asked, (list, tuple)):
        for value in asked:
            need_for_recovery(who, value)


def need(who: Principal, right: Right) -> None:
    """Raise Forbidden, in the words that clients know, for somebody without that right."""
    if right not in who.rights:
        raise Forbidden(
            "You are not authorized to complete this operation.",
            hint=f"it needs the right to {right.value}",
        )
