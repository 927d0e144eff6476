"""The port of authentication: what an authenticator is given and what it returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from yaffle.api.auth.passwords import Hash
    from yaffle.model.authz import Principal

HEADER_MAX = 8192
"""Longer credentials are nobody's: a Keystone token has a few hundred characters (Fernet)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The credentials of one request; "" where a header is absent, or given twice."""

    authorization: str = ""
    auth_token: str = ""
    """X-Auth-Token, which only Keystone understands; everybody else lets it pass unread."""
    name: str = ""
    """X-Yaffle-User: a courtesy where nobody has to prove anything, and no proof."""
    peer: str = ""
    """Address of the other end of the connection; a proxy's where there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A caller, and how surely that is known."""

    who: Principal
    proved: bool = True
    """False where no credentials are needed: the name is then what somebody says."""
    token: str = field(default="", repr=False)
    """Keystone's token that proved it, for what the user lets us do with it; "" for all others."""
    password: Hash | None = field(default=None, repr=False)
    """The hash that their password fits, which a session can be begun for; None for all others."""


class Authenticator(Protocol):
    """Says who has sent these credentials.

    One that has to ask a service raises DependencyError while that is away: 503, and no 401 that
    would make clients throw good credentials away.
    """

    @property
    def challenge(self) -> str:
        """Return the WWW-Authenticate header of a 401; empty where nothing would help."""
        ...

    async def who(self, given: Given) -> Known | None:
        """Return who it is; None for credentials of another kind, and for wrong ones.

        Raises DependencyError where that cannot be told now: too many ask at once, a service that
        has to be asked is away. Raises TooManyRequests for who guessed wrong a moment ago.
        """
        ...
