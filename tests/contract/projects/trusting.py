"""A house in which users trust us: what makes trusts, what keeps them, and the cloud."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.contract.projects.cloud import NAME, FakeCloud, served

from yaffle.api.auth import Known
from yaffle.api.auth.keystone.trusts import FRESH_S, Trusts
from yaffle.engine.runtime.clock import SystemClock
from yaffle.engine.runtime.stored_credentials import Old, StoredCredentials
from yaffle.errors import StoreUnavailable
from yaffle.integrations.openstack import CloudsYaml
from yaffle.integrations.secret_box import KeyFile, add_key
from yaffle.model.authz import RIGHTS, Principal, Role
from yaffle.model.credentials import Credential
from yaffle.store import credentials as rows
from yaffle.store.database import Store, open_store

TOKEN = "canary-5f1d9c-token"


class LeapClock(SystemClock):
    """The real time, with a leap forward when a test says so, which whoever sleeps feels too."""

    leapt_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.leapt_s

    def now_us(self) -> int:
        return super().now_us() + int(self.leapt_s * 1e6)

    async def sleep(self, seconds: float) -> None:
        until_s = self.monotonic_s() + seconds
        while (left_s := until_s - self.monotonic_s()) > 0:
            await super().sleep(min(left_s, 0.01))


class KilledError(BaseException):
    """A process ends here, and with it whatever it remembers."""


class CountedCredentials(StoredCredentials):
    """Knows how often it was asked what is to be deleted; `full`, it stores nothing.

    `killed`, whoever stores dies.
    """

    looked = 0
    full = False
    killed = False

    async def put(self, credential: Credential) -> bool:
        if self.killed:
            raise KilledError
        if self.full:
            raise StoreUnavailable("no room left on the device")
        return await super().put(credential)

    async def superseded(self, cloud: str, project: str, user: str) -> Sequence[Old]:
        found = await super().superseded(cloud, project, user)
        self.looked += 1
        return found


@dataclass
class House:
    """What makes trusts, what keeps them, and the cloud."""

    cloud: FakeCloud
    store: Store
    clock: LeapClock
    kept: CountedCredentials
    trusts: Trusts
    at: CloudsYaml

    def process(self) -> Trusts:
        """Return what another process has beside ours, with the pace that a server has."""
        return Trusts(self.kept, {NAME: self.at}, self.clock)

    def known(self, user: str = "ann", project: str = "shop", *, may: bool = True) -> Known:
        """Let somebody log in; `may` they make trusts?"""
        token = f"{TOKEN}-{user}-{project}"
        self.cloud.people[token] = (user, project, may)
        rights = RIGHTS[Role.MEMBER]
        return Known(who=Principal(user=user, project=project, rights=rights), token=token)

    async def held(self, project: str = "shop") -> list[tuple[str, str]]:
        return [(c.user, c.reference) for c in await self.kept.of(NAME, project)]

    async def rows(self) -> dict[str, rows.CredentialRow]:
        """Return every row by what the cloud calls it."""
        return {row.reference: row for row in await self.store.read(rows.every)}

    async def changes(self, at: Trusts | None = None) -> None:
        """Let Ann change something, so late that she is looked at again."""
        self.clock.leapt_s += FRESH_S + 1
        await (at or self.trusts).ensured(self.known())

    async def refused(self) -> None:
        """Let Keystone refuse Ann's trust for a while."""
        held = next(c for c in await self.kept.of(NAME, "shop") if c.user == "ann")
        await self.kept.refused(held, "the trustor is disabled")

    async def trusts_anew(self, at: Trusts | None = None) -> None:
        """Let Keystone refuse Ann's trust for a while, and her trust us anew."""
        await self.refused()
        await self.changes(at)

    @asynccontextmanager
    async def tidying(self, *processes: Trusts) -> AsyncIterator[None]:
        """Run what tidies up behind those who trust us anew, as a server does."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one.run()) for one in processes or (self.trusts,)]
            yield
            for task in tasks:
                task.cancel()

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Wait for something; the bound is for a broken one only."""
        async with asyncio.timeout(60):
            while not await holds():
                await self.clock.sleep(0.02)


Scene = Callable[[House], Awaitable[None]]


@contextmanager
def playing(folder: Path) -> Iterator[Callable[[Scene], None]]:
    """Play scenes in a house of their own."""
    add_key(folder / "keys")
    with served() as cloud:
        cloud.deletes.set()
        at = CloudsYaml(name=NAME, file=cloud.clouds_yaml(folder / "clouds.yaml"))

        async def whole(scene: Scene) -> None:
            clock = LeapClock()
            async with open_store(f"sqlite:///{folder / 'y.db'}", clock=clock) as store:
                kept = CountedCredentials(store, KeyFile(folder / "keys"), clock)
                trusts = Trusts(kept, {NAME: at}, clock, settled_s=0.0)
                await scene(House(cloud, store, clock, kept, trusts, at))

        yield lambda scene: asyncio.run(whole(scene))
