"""Builds the authenticators that the settings name; none is allowed on loopback only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from yaffle.api.auth.basic import BasicUsers
from yaffle.api.auth.keystone import KeystoneTokens
from yaffle.api.auth.port import Authenticator, Given, Known
from yaffle.api.auth.tokens import BearerTokens
from yaffle.config import is_loopback, split_address
from yaffle.errors import ConfigError
from yaffle.model.authz import LOCAL

if TYPE_CHECKING:
    from yaffle.api.auth.sessions import Sessions
    from yaffle.config import ServerSettings
    from yaffle.ports import Clock


class Anyone:
    """Lets everybody be the local user; only for loopback, where it is the machine that protects."""

    challenge: ClassVar[str] = ""

    async def who(self, given: Given) -> Known | None:
        """Return the local user with all rights, under the name that was said, if any."""
        named = replace(LOCAL, user=given.name) if given.name else LOCAL
        return Known(who=named, proved=False)


class Identity:
    """The active authenticators; the first that knows the credentials says who it is."""

    def __init__(
        self, active: Sequence[Authenticator], *, sessions: Sessions | None = None
    ) -> None:
        self._active = tuple(active)
        self.sessions = sessions
        """What passwords are exchanged for; None where nobody has one."""

    @property
    def challenges(self) -> tuple[str, ...]:
        """The WWW-Authenticate headers that a 401 offers."""
        return tuple(one.challenge for one in self._active if one.challenge)

    async def who(self, given: Given) -> Known | None:
        """Return who asks; None for nobody we know. Raises DependencyError as its parts do."""
        for one in self._active:
            known = await one.who(given)
            if known is not None:
                return known
        return None


def read_identity(server: ServerSettings, clock: Clock) -> Identity:
    """Return what the settings name, read from its files.

    Raises ConfigError for an address that strangers can reach and that asks for no credentials,
    and for a file that cannot be read, that others may read, or whose lines make no sense.
    """
    active: list[Authenticator] = []
    sessions: Sessions | None = None
    if server.token_file is not None:
        active.append(BearerTokens(server.token_file, clock))
    if server.users_file is not None:
        basic = BasicUsers(server.users_file, clock, session_life_s=server.session_life)
        sessions = basic.sessions
        active += [sessions, basic]
    if server.keystone is not None:
        active.append(KeystoneTokens(server.keystone, clock))
    if not active and not is_loopback(split_address(server.listen)[0]):
        raise ConfigError(
            f"server.listen = {server.listen!r} can be reached from elsewhere: set"
            " server.token_file or server.users_file to a file of those who may ask, or"
            " server.keystone, or listen on 127.0.0.1"
        )
    _refuse_clear_passwords(server)
    return Identity(active or [Anyone()], sessions=sessions)


def _refuse_clear_passwords(server: ServerSettings) -> None:
    """Raise ConfigError where people's passwords would cross a network unencrypted."""
    near = is_loopback(split_address(server.listen)[0])
    if server.users_file is None or near or server.tls_certificate or server.tls_by_proxy:
        return
    raise ConfigError(
        f"server.listen = {server.listen!r} can be reached from elsewhere, and without TLS the"
        " passwords of server.users_file could be read on the way: set server.tls_certificate and"
        " server.tls_key, or server.tls_by_proxy = true where a proxy in front speaks TLS and nobody"
        " else gets here, or listen on 127.0.0.1"
    )


if TYPE_CHECKING:
    _conforms: type[Authenticator] = Anyone
