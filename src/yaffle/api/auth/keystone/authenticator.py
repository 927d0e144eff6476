"""Authenticates Keystone tokens: in threads, once for all who wait, cached for a while."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import structlog

from yaffle.api.auth.credential_cache import Memory, Source, Turns
from yaffle.api.auth.port import HEADER_MAX, Given, Known
from yaffle.api.http.client_shares import share_of
from yaffle.errors import ConfigError, DependencyError
from yaffle.integrations.driver_settings import read_secret
from yaffle.model.authz import GRANTED, Principal, Right

if TYPE_CHECKING:
    from keystoneauth1.access import AccessInfo

    from yaffle.api.auth.port import Authenticator
    from yaffle.config import KeystoneSettings
    from yaffle.ports import Clock

log = structlog.get_logger()

PARALLEL: Final = 4
"""Questions to Keystone at once; each has a thread of its own, which a Keystone that hangs keeps."""
SETTING: Final = "server.keystone"
AWAY: Final = "Keystone cannot be asked who you are"

Fetch = Callable[[str], "AccessInfo | None"]
"""Takes a token; returns what it is worth, None for one that is not valid.

Blocks; raises DependencyError while Keystone cannot tell.
"""


class KeystoneTokens:
    """Knows people by the tokens that Keystone gave them."""

    def __init__(self, settings: KeystoneSettings, clock: Clock) -> None:
        """Raise ConfigError where the extra or the password is missing, or others may read that."""
        self.challenge = f'Keystone uri="{settings.www_authenticate_uri or settings.auth_url}"'
        self._words = {word: word for word in GRANTED}
        self._words |= {role.lower(): ours for role, ours in settings.roles.items()}
        self._clock = clock
        self._fetch = fetcher(settings)
        self._memory = Memory(clock)
        self._turns = Turns(PARALLEL)
        self._threads = ThreadPoolExecutor(PARALLEL, thread_name_prefix="yaffle-keystone")
        # A question is asked twice at most, and may wait for the version document before.
        self._patience_s = 4 * settings.timeout

    async def who(self, given: Given) -> Known | None:
        """Return whose token it is; raise DependencyError while Keystone is away."""
        token = given.auth_token
        if not token or len(token) > HEADER_MAX or not token.isascii() or not token.isprintable():
            return None
        key = self._memory.key(token)
        source = Source(share_of(given.peer))
        found, who = self._memory.get(key)
        while not found:
            if await self._turns.first(key, source):
                try:
                    who, keep_s = await self._turns.run(source, functools.partial(self._ask, token))
                    self._memory.put(None, key, who, keep_s=keep_s)
                finally:
                    self._turns.done(key, source)
                break
            found, who = self._memory.get(key)
        return None if who is None else Known(who=who, token=token)

    async def _ask(self, token: str) -> tuple[Principal | None, float]:
        """Return whose it is, and for how long it is valid (s)."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._patience_s):
                access = await loop.run_in_executor(self._threads, self._fetch, token)
        except TimeoutError:
            raise DependencyError(f"{AWAY}: no answer in {self._patience_s:g} s") from None
        if access is None or access.expires is None:
            return None, 0.0
        left_s = access.expires.timestamp() - self._clock.now_us() / 1e6
        return (who_of(access, self._words), left_s) if left_s > 0 else (None, 0.0)


def who_of(access: AccessInfo, words: Mapping[str, str]) -> Principal:
    """Return who a token stands for; without a project, or a role that we know, it has no right.

    Ids, not names, stand in our rows: as in every other service, a renamed project stays itself.
    """
    known = [words[role.lower()] for role in access.role_names or () if role.lower() in words]
    rights = frozenset[Right]().union(*(GRANTED[word] for word in known))
    if not (access.project_id and access.project_domain_id) or Right.READ not in rights:
        rights = frozenset()
    return Principal(
        user=access.user_id or "",
        project=access.project_id or "",
        domain=access.project_domain_id or "",
        rights=rights,
    )


def fetcher(settings: KeystoneSettings) -> Fetch:
    """Return the one call that asks Keystone; raise ConfigError as `KeystoneTokens` does."""
    password = _password(settings)
    try:
        from yaffle.api.auth.keystone import token_validation  # noqa: PLC0415 - a second of imports
    except ModuleNotFoundError as missing:
        raise ConfigError(
            f"{SETTING} needs the extra `openstack` ({missing.name} is not installed):"
            " pip install 'yaffle[openstack]'"
        ) from None
    return token_validation.fetcher(settings, password)


def _password(settings: KeystoneSettings) -> str:
    return read_secret(settings.password_file, f"{SETTING}.password_file").decode()


if TYPE_CHECKING:
    _conforms: type[Authenticator] = KeystoneTokens
