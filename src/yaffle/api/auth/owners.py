"""Whether a webhook's owner still exists: what acts in a person's name ends with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from yaffle.api.auth import tokens, users
from yaffle.api.auth.secure_file import Watched
from yaffle.model.authz import Right

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yaffle.config import ServerSettings
    from yaffle.model.authz import Principal
    from yaffle.ports import Clock


class Leave(Protocol):
    """Knows whether somebody of Keystone's still lets us act for them."""

    async def gone(self, who: Principal) -> str:
        """Return why not; empty where they do, or where that cannot be told."""
        ...


class Owners:
    """Asks the files of people and tokens, and what is known of users' trusts."""

    def __init__(self, server: ServerSettings, clock: Clock, leave: Leave | None = None) -> None:
        """Raise ConfigError for a file that makes no sense, as at the door."""
        self._leave = leave
        self._files: list[Watched[Sequence[Principal]]] = []
        if (tokens_path := server.token_file) is not None:
            self._files.append(
                Watched(
                    tokens_path,
                    lambda text: [who for _, who in tokens.parsed(tokens_path, text).people],
                    setting=tokens.SETTING,
                    clock=clock,
                )
            )
        if (users_path := server.users_file) is not None:
            self._files.append(
                Watched(
                    users_path,
                    lambda text: [user.who for user in users.parsed(users_path, text)],
                    setting=users.SETTING,
                    clock=clock,
                )
            )

    async def gone(self, who: Principal) -> str:
        """Return why that owner has nothing to say any more; empty where they have.

        Also empty where nobody can tell: nobody has to say who they are here, or only Keystone could.
        """
        if who.by_keystone:
            return "" if self._leave is None else await self._leave.gone(who)
        for file in self._files:
            if any(_is_still(one, who) for one in await file.fresh()):
                return ""
        if not self._files:
            return ""
        return f"{who.user} may change nothing here any more"


def _is_still(one: Principal, owner: Principal) -> bool:
    """Whether a person of a file is that owner, and may change what is in the owner's project."""
    same = one.user == owner.user and Right.WRITE in one.rights
    return same and (one.is_admin or one.project == owner.project)
