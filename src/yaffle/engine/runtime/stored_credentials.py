"""Opens projects' credentials for drivers; the database keeps them sealed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import structlog

from yaffle.errors import StoreUnavailable
from yaffle.integrations.openstack.credentials import projects_clouds
from yaffle.integrations.secret_box import KeyFile, SealBroken, Sealed
from yaffle.model.credentials import Credential, CredentialKind
from yaffle.store import credentials as rows
from yaffle.store.credentials import CredentialRow

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from yaffle.config import Settings
    from yaffle.ports import Clock
    from yaffle.ports.credentials import Credentials
    from yaffle.store.database import Store

log = structlog.get_logger(__name__)

NOTE_S: Final = 2.0
"""A note of what has worked or not is worth no longer wait: the next one says it again."""
WHY_MAX: Final = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Old:
    """A trust in whose place there is a newer one."""

    reference: str
    since_s: float
    """Since when, in seconds of the database's clock."""


class StoredCredentials:
    """Opens what is stored, for as long as it takes to hand it over."""

    def __init__(self, store: Store, keys: KeyFile, clock: Clock) -> None:
        self._store = store
        self._keys = keys
        self._clock = clock

    async def of(self, cloud: str, project: str) -> Sequence[Credential]:
        """Return what there is for a project in that cloud, what works first.

        One that cannot be opened is left out while another can be; else SealBroken says why.
        """
        found = await self._store.read(lambda conn: rows.of_project(conn, cloud, project))
        return await asyncio.to_thread(self._opened, found)

    def _opened(self, found: Sequence[CredentialRow]) -> Sequence[Credential]:
        opened: list[Credential] = []
        broken: SealBroken | None = None
        for row in found:
            try:
                opened.append(opened_row(self._keys, row))
            except SealBroken as error:
                log.warning("credential not opened", credential=row.id, reason=str(error))
                broken = error
        if broken is not None and not opened:
            raise broken
        return opened

    async def put(self, credential: Credential) -> bool:
        """Seal a credential and store it in place of the one before it; return whether there was one."""
        row = await asyncio.to_thread(sealed_row, self._keys, credential, self._clock.now_us())
        return await self._store.write(lambda conn: rows.put(conn, row))

    async def key_ids(self) -> Sequence[str]:
        """Return the ids of the keys that seal, the newest first: they are this installation's alone."""
        return await asyncio.to_thread(lambda: self._keys.ids)

    async def superseded(self, cloud: str, project: str, user: str) -> Sequence[Old]:
        """Return that user's trusts in whose place there are newer ones, the oldest first."""
        found = await self._store.read(lambda conn: rows.superseded(conn, cloud, project, user))
        return [Old(reference=row.reference, since_s=age_us / 1e6) for row, age_us in found]

    async def abandoned(
        self, clouds: Sequence[str], *, for_s: float, rest_s: float, most: int
    ) -> Sequence[CredentialRow]:
        """Return trusts that were replaced so long ago and are still there.

        At most so many, and none that was tried within `rest_s`.
        """
        for_us, rest_us = int(for_s * 1e6), int(rest_s * 1e6)
        return await self._store.read(
            lambda conn: rows.abandoned(conn, clouds, for_us=for_us, rest_us=rest_us, most=most)
        )

    async def deleted(self, cloud: str, project: str, user: str, reference: str) -> None:
        """Forget such a trust: the cloud has none any more. Raises nothing, as what comes next."""
        ident = rows.superseded_ident(cloud, project, user, reference)
        await self._note(lambda conn: rows.remove(conn, ident))

    async def not_deleted(
        self, cloud: str, project: str, user: str, reference: str, why: str
    ) -> None:
        """Take note of why such a trust is still there."""
        ident, now_us = rows.superseded_ident(cloud, project, user, reference), self._clock.now_us()
        text = f"not deleted in the cloud: {why}"[:WHY_MAX]
        await self._note(lambda conn: rows.refused(conn, ident, reference, now_us, text))

    async def used(self, credential: Credential) -> None:
        """Take note that the backend has accepted it."""
        now_us = self._clock.now_us()
        await self._note(lambda c: rows.used(c, credential.id, credential.reference, now_us))

    async def refused(self, credential: Credential, why: str) -> None:
        """Take note that the backend does not accept it."""
        now_us = self._clock.now_us()
        log.warning(
            "credential refused",
            project=credential.project,
            kind=credential.kind.value,
            reference=credential.reference,
            reason=why,
        )
        await self._note(
            lambda c: rows.refused(c, credential.id, credential.reference, now_us, why[:WHY_MAX])
        )

    async def _note(self, work: Callable[[Connection], object]) -> None:
        try:
            await self._store.write(work, timeout_s=NOTE_S)
        except StoreUnavailable as error:
            log.info("credential not noted", reason=str(error))


def _place(cloud: str, project: str, user: str, kind: str, reference: str) -> tuple[str, ...]:
    """Return what a seal is bound to: a row that was given another project opens for nobody."""
    return (cloud, project, user, kind, reference)


def sealed_row(keys: KeyFile, credential: Credential, now_us: int) -> CredentialRow:
    """Return a credential as it is stored; raises ConfigError where there is no key."""
    c = credential
    place = _place(c.cloud, c.project, c.user, c.kind.value, c.reference)
    sealed = keys.seal({"secret": c.secret}, place)
    return CredentialRow(
        id=rows.ident_of(c.cloud, c.project, c.user, c.kind.value),
        cloud=c.cloud,
        kind=c.kind.value,
        reference=c.reference,
        sealed=sealed.blob,
        key_id=sealed.key_id,
        project=c.project,
        user=c.user,
        created_us=now_us,
        used_us=None,
        refused_us=None,
        refused_why="",
    )


def opened_row(keys: KeyFile, row: CredentialRow) -> Credential:
    """Return what is in a row; raises SealBroken, which names whose it is and no secret."""
    place = _place(row.cloud, row.project, row.user, row.kind, row.reference)
    try:
        content = keys.open(Sealed(key_id=row.key_id, blob=row.sealed), place)
        return Credential(
            id=row.id,
            cloud=row.cloud,
            project=row.project,
            user=row.user,
            kind=CredentialKind(row.kind),
            reference=row.reference,
            secret=content["secret"],
            refused_us=row.refused_us,
            refused_why=row.refused_why,
        )
    except SealBroken as error:
        raise SealBroken(
            f"the {row.kind} {row.reference} of project {row.project} cannot be opened: {error}",
            hint=error.hint,
        ) from None
    except (ValueError, KeyError):
        raise SealBroken(
            f"the {row.kind} {row.reference} of project {row.project} is of a kind that this"
            " version does not know"
        ) from None


def sealed_again(keys: KeyFile, row: CredentialRow) -> Sealed | None:
    """Return the seal of the newest key; None where it bears that already."""
    if row.key_id == keys.newest:
        return None
    opened = opened_row(keys, row)
    return keys.seal(
        {"secret": opened.secret},
        _place(row.cloud, row.project, row.user, row.kind, row.reference),
    )


def kept_credentials(
    settings: Settings, store: Store | None, clock: Clock
) -> StoredCredentials | None:
    """Return what projects have handed to us; None where there are no keys for it.

    `store`: None where no credential is asked for, but only whether all is set up as it must be.
    Raises ConfigError where the keys cannot be used, or a cloud's name stands for two clouds.
    """
    projects_clouds(settings.drivers)
    if settings.credentials.keys_file is None:
        return None
    keys = KeyFile(settings.credentials.keys_file)
    keys.check()
    return StoredCredentials(cast("Store", store), keys, clock)


def no_credentials(clock: Clock) -> StoredCredentials:
    """Return what opens nothing, for a look at settings where the keys themselves are wrong."""
    return StoredCredentials(cast("Store", None), KeyFile(Path()), clock)


if TYPE_CHECKING:
    _conforms: type[Credentials] = StoredCredentials
