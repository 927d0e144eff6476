"""Creates trusts: with a user's own token, when that user first changes something.

Their token ends within hours, and their nodes have to be healed at night. So while it is there, and
once only, it is used to have Keystone write down that our service user may act for this user in this
project, with the roles that they have there (what Senlin did on every request). What cannot make one
(an application credential that is not `unrestricted`) is no reason to turn somebody away whose
project has handed over a credential already.

Whoever dies after Keystone has made a trust, or cannot store it, leaves one that nobody knows. So each
bears a mark of who has made it, and one that was left is taken before another one is made.

One in whose place there is a newer one is deleted afterwards: see `trust_rotation`.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec
import structlog

from yaffle.api.auth.keystone.trust_rotation import SETTLED_S, Superseded
from yaffle.engine.runtime.stored_credentials import kept_credentials
from yaffle.errors import DependencyError, Forbidden, UserError, YaffleError
from yaffle.integrations.openstack import Client, Cloud
from yaffle.integrations.openstack.credentials import projects_clouds
from yaffle.integrations.secret_box import SealBroken
from yaffle.model.credentials import Credential, CredentialKind

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from yaffle.api.auth.port import Known
    from yaffle.config import Settings
    from yaffle.engine.runtime.stored_credentials import StoredCredentials
    from yaffle.integrations.openstack import CloudsYaml
    from yaffle.model.authz import Principal
    from yaffle.ports import Clock
    from yaffle.store.database import Store

log = structlog.get_logger(__name__)

FRESH_S: Final = 30.0
"""So long somebody who has let us act is not asked again, even if their trust ends meanwhile."""
KEPT: Final = 10_000
CALL_S: Final = 15.0
THREADS: Final = 2

MARK: Final = "yaffle"
"""In a trust, beside what Keystone itself reads: whose keys it was to be sealed with, and its roles."""

_Key = tuple[str, str, str]


class _Role(msgspec.Struct, frozen=True):
    id: str


class _Subject(msgspec.Struct, frozen=True):
    roles: tuple[_Role, ...] = ()


class _Token(msgspec.Struct, frozen=True):
    token: _Subject


class _Made(msgspec.Struct, frozen=True):
    id: str


class _Trust(msgspec.Struct, frozen=True):
    trust: _Made


class _Listed(msgspec.Struct, frozen=True):
    id: str
    trustee_user_id: str = ""
    project_id: str | None = None
    expires_at: str | None = None
    deleted_at: str | None = None
    yaffle: object = None


class _Trusts(msgspec.Struct, frozen=True):
    trusts: tuple[_Listed, ...]


class Trusts:
    """Makes trusts, one for each user in each project of each cloud."""

    def __init__(
        self,
        kept: StoredCredentials,
        clouds: Mapping[str, CloudsYaml],
        clock: Clock,
        *,
        settled_s: float = SETTLED_S,
    ) -> None:
        """`settled_s`: between a newer trust and the deletion of the one before it."""
        self._kept = kept
        self._clock = clock
        self._clouds = {name: Cloud(at, clock, threads=THREADS) for name, at in clouds.items()}
        self._fine: OrderedDict[_Key, float] = OrderedDict()
        self._turn = asyncio.Lock()
        self.superseded = Superseded(kept, self._clouds, clock, settled_s=settled_s)

    async def run(self) -> None:
        """Tidy up behind those who have trusted us anew, until cancelled."""
        await self.superseded.run()

    async def ensured(self, known: Known) -> None:
        """Return once there is a credential of the user's, or one of the project's that must do.

        Raises Forbidden where the token cannot make one and the project has none; DependencyError
        while Keystone or the database cannot tell.
        """
        for cloud in self._clouds:
            key = (cloud, known.who.project, known.who.user)
            if self._is_fine(key):
                continue
            try:
                # One at a time: two first requests at once would make two trusts.
                async with asyncio.timeout(2 * CALL_S), self._turn:
                    if not self._is_fine(key):
                        await self._ensure(cloud, known)
                        self._note(key)
                        self.superseded.offer(cloud, known)
            except TimeoutError:
                raise DependencyError(f"cloud {cloud}: too many wait for Keystone") from None

    async def gone(self, who: Principal) -> str:
        """Return why nobody lets us act for that user any more; empty where that is not known.

        Their own trust counts before what their project has handed over: it is they who are asked for.
        """
        for cloud in self._clouds:
            try:
                found = await self._kept.of(cloud, who.project)
            except SealBroken:
                continue  # a key that is lost: what was sealed may be good
            theirs = [one for one in found if one.user == who.user] or found
            if not theirs:
                return f"project {who.project} has no credential for cloud {cloud}"
            if all(one.refused_us is not None for one in theirs):
                return f"Keystone refuses the {theirs[0].called}: {theirs[0].refused_why}"
        return ""

    def _is_fine(self, key: _Key) -> bool:
        return self._clock.monotonic_s() - self._fine.get(key, -FRESH_S) < FRESH_S

    def _note(self, key: _Key) -> None:
        self._fine[key] = self._clock.monotonic_s()
        self._fine.move_to_end(key)
        while len(self._fine) > KEPT:
            self._fine.popitem(last=False)

    async def _ensure(self, cloud: str, known: Known) -> None:
        who = known.who
        held = await self._kept.of(cloud, who.project)
        usable = [one for one in held if one.refused_us is None]
        if any(one.user == who.user for one in usable):
            return
        old = await self._kept.superseded(cloud, who.project, who.user)
        stored = {one.reference for one in held} | {one.reference for one in old}
        keys = await self._kept.key_ids()
        try:
            reference = await self._made(cloud, known, stored, keys)
        except UserError as error:
            if usable:
                return
            raise Forbidden(
                f"Yaffle has no credential for project {who.project}, and this token cannot make"
                f" one: {error}",
                hint="ask with a password's token or an unrestricted application credential, or hand"
                " over an application credential: `yaffle credential add --id ID`",
            ) from None
        except (TimeoutError, YaffleError) as error:
            if usable:
                return
            raise DependencyError(
                f"Keystone cannot be asked to let Yaffle act in project {who.project}: {error}"
            ) from None
        await self._kept.put(
            Credential(
                id="",
                cloud=cloud,
                project=who.project,
                user=who.user,
                kind=CredentialKind.TRUST,
                reference=reference,
                secret="",
            )
        )
        log.info("trust made", cloud=cloud, project=who.project, user=who.user, trust=reference)

    async def _made(
        self, cloud: str, known: Known, stored: Container[str], keys: Sequence[str]
    ) -> str:
        """Return the id of a trust that is not among those `stored`: of one that was left, or a new one.

        Raises UserError where the token may not make one.
        """
        who, token = known.who, known.token

        def make(client: Client) -> str:
            told = client.keystone("GET", "/auth/tokens", token=token, about=token)
            roles = sorted(role.id for role in told.parsed(_Token).token.roles)
            marks = [" ".join([key, *roles]) for key in keys]
            for one in left_unstored(client, known, marks):
                if one not in stored:
                    return one
            trust = {
                MARK: marks[0],
                "trustor_user_id": who.user,
                "trustee_user_id": client.user_id,
                "project_id": who.project,
                "impersonation": True,
                "allow_redelegation": False,
                "roles": [{"id": role} for role in roles],
            }
            answer = client.keystone("POST", "/OS-TRUST/trusts", token=token, body={"trust": trust})
            return answer.parsed(_Trust).trust.id

        return await self._clouds[cloud].call(make, CALL_S)


def left_unstored(client: Client, known: Known, marks: Sequence[str]) -> list[str]:
    """Return the user's trusts with one of these marks, which this installation alone gives.

    Nor are those taken that other programs, or installations with the same service user, have. Who may
    not list their own gets another one: that is no reason to turn them away.
    """
    who = known.who
    mine = f"/OS-TRUST/trusts?trustor_user_id={quote(who.user, safe='')}"
    try:
        found = client.keystone("GET", mine, token=known.token).parsed(_Trusts).trusts
    except Forbidden:
        return []
    return [
        one.id
        for one in found
        if one.yaffle in marks
        and (one.trustee_user_id, one.project_id) == (client.user_id, who.project)
        and one.expires_at is one.deleted_at is None
    ]


def trusts_of(settings: Settings, store: Store, clock: Clock) -> Trusts | None:
    """Return what makes trusts; None unless Keystone says who asks and drivers act for projects.

    Raises ConfigError where there are no keys for what is stored.
    """
    clouds = projects_clouds(settings.drivers)
    if settings.server.keystone is None or not clouds:
        return None
    kept = kept_credentials(settings, store, clock)
    return None if kept is None else Trusts(kept, clouds, clock)
