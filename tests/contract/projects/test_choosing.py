"""Each project's nodes with that project's credential, and never with another's; none is unknown."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy import delete
from tests.contract.projects.cloud import NAME, FakeCloud, served
from tests.contract.projects.logged import logged

from yaffle.drivers.profiles.nova_server import NovaServer
from yaffle.engine.runtime.clock import SystemClock
from yaffle.engine.runtime.stored_credentials import StoredCredentials
from yaffle.errors import ConfigError, StoreUnavailable
from yaffle.integrations.openstack import CredentialMissing, Projects
from yaffle.integrations.openstack.credentials import Choice, CloudsYaml
from yaffle.integrations.openstack.projects import AGAIN_US, FRESH_S
from yaffle.integrations.secret_box import KeyFile, add_key
from yaffle.model.credentials import Credential, CredentialKind
from yaffle.model.ids import NodeId, OperationId
from yaffle.model.operations import Operation, Progress, ProgressState, Reading, Target
from yaffle.ports import DriverContext
from yaffle.store import credentials as rows
from yaffle.store import tables
from yaffle.store.database import Store, open_store

CALL_S = 60.0
CANARY = "canary-5f1d9c-secret"


class LeapClock(SystemClock):
    """The real time, with a leap forward when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.leapt_s = 0.0

    def now_us(self) -> int:
        return super().now_us() + round(self.leapt_s * 1_000_000)

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.leapt_s


@dataclass
class House:
    """A driver, what it is told of credentials, and the cloud."""

    cloud: FakeCloud
    folder: Path
    store: Store
    clock: LeapClock
    kept: StoredCredentials
    nova: NovaServer = field(init=False)

    def __post_init__(self) -> None:
        self.nova = self.driver()

    @property
    def at(self) -> CloudsYaml:
        return CloudsYaml(name=NAME, file=self.folder / "clouds.yaml")

    def driver(self) -> NovaServer:
        """Return a driver that has asked nothing yet: a restarted engine."""
        settings = {"cloud": NAME, "clouds_file": str(self.at.file), "credentials": "projects"}
        context = DriverContext(
            clock=self.clock, state_dir=self.folder, settings=settings, credentials=self.kept
        )
        return NovaServer(context)

    async def give(self, project: str, ident: str, *, user: str = "ann", **more: object) -> None:
        """Let a user hand over an application credential."""
        self.cloud.credentials[ident] = (CANARY, project)
        await self.put(project, ident, CredentialKind.APPLICATION_CREDENTIAL, CANARY, user)

    async def trust(self, project: str, ident: str) -> None:
        """Let a user trust us."""
        self.cloud.trusts[ident] = project
        await self.put(project, ident, CredentialKind.TRUST, "", "ann")

    async def put(
        self, project: str, ident: str, kind: CredentialKind, secret: str, user: str
    ) -> None:
        await self.kept.put(
            Credential(
                id="", cloud=NAME, project=project, user=user, kind=kind, reference=ident,
                secret=secret,
            )
        )  # fmt: skip

    def node(self, project: str) -> Target:
        """Let a server run, and return the node that it is the copy of."""
        ident = self.cloud.add(project, str(uuid.uuid4()))
        return Target(
            node_id=NodeId(str(uuid.uuid4())),
            name=f"{project}-node",
            physical_id=ident,
            profile_type=NovaServer.type,
            spec={},
            attributes={"project_id": project},
            project=project,
        )

    async def read(self, *targets: Target) -> list[Reading]:
        return list(await self.nova.read(targets, deadline_s=CALL_S))

    async def reboot(self, target: Target) -> Progress:
        op = Operation(kind="REBOOT", target=target, params={"type": "HARD"})
        ident = OperationId(str(uuid.uuid4()))
        return await self.nova.submit(op, operation_id=ident, deadline_s=CALL_S)

    def asked_of(self, target: Target) -> set[str]:
        """Return with which projects' tokens Nova was asked about a server by its id."""
        return {p for p, _, path in self.cloud.asked if target.physical_id in path}


Scene = Callable[[House], Awaitable[None]]


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Callable[[Scene], None]]:
    """Play a scene in a house of its own."""
    add_key(tmp_path / "keys")

    @asynccontextmanager
    async def house(cloud: FakeCloud) -> AsyncIterator[House]:
        clock = LeapClock()
        async with open_store(f"sqlite:///{tmp_path / 'y.db'}", clock=clock) as store:
            kept = StoredCredentials(store, KeyFile(tmp_path / "keys"), clock)
            yield House(cloud, tmp_path, store, clock, kept)

    with served() as cloud:
        cloud.clouds_yaml(tmp_path / "clouds.yaml")

        def run(scene: Scene) -> None:
            async def whole() -> None:
                async with house(cloud) as one:
                    await scene(one)

            asyncio.run(whole())

        yield run


def test_each_project_is_asked_with_its_own_and_with_no_other(
    play: Callable[[Scene], None],
) -> None:
    async def scene(house: House) -> None:
        await house.give("shop", "ac-shop")
        await house.trust("bank", "t-bank")
        shop, bank = house.node("shop"), house.node("bank")
        # Of one of them it is said that it lives in the other's project: still its own credential.
        seen = await house.read(shop, bank)
        assert [reading.up for reading in seen] == [True, True], seen
        for target in (shop, bank):
            assert (await house.read(target))[0].up is True
            assert (await house.reboot(target)).state is ProgressState.RUNNING
            assert house.asked_of(target) == {target.project}
        (row,) = await house.kept.of(NAME, "shop")
        assert row.refused_us is None

    play(scene)


def test_a_project_without_one_is_unknown_and_is_not_acted_on(
    play: Callable[[Scene], None],
) -> None:
    async def scene(house: House) -> None:
        await house.give("shop", "ac-shop")
        shop, bank = house.node("shop"), house.node("bank")
        fine, unknown = await house.read(shop, bank)
        assert fine.up is True
        assert (unknown.up, unknown.exists) == (None, True)
        assert "project bank has handed over no credential for cloud prod" in unknown.detail
        assert "yaffle credential add" in unknown.detail
        done = await house.reboot(bank)
        assert done.state is ProgressState.FAILED
        assert "was not begun: project bank has handed over no credential" in done.detail
        assert house.asked_of(bank) == set()
        # As soon as there is one, it counts.
        await house.give("bank", "ac-bank")
        assert (await house.read(bank))[0].up is True

    play(scene)


def test_one_that_is_revoked_is_unknown_with_keystones_reason(
    play: Callable[[Scene], None],
) -> None:
    async def scene(house: House) -> None:
        await house.give("shop", "ac-shop")
        await house.give("bank", "ac-bank")
        shop, bank = house.node("shop"), house.node("bank")
        assert [r.up for r in await house.read(shop, bank)] == [True, True]
        house.cloud.revoke("ac-bank")
        fine, unknown = await house.read(shop, bank)
        assert fine.up is True
        assert unknown.up is None
        assert "Keystone refuses the application credential ac-bank" in unknown.detail
        assert "Could not find Application Credential: ac-bank." in unknown.detail
        done = await house.reboot(bank)
        assert (done.state, "was not begun" in done.detail) == (ProgressState.FAILED, True)
        (stored,) = await house.kept.of(NAME, "bank")
        assert stored.refused_us is not None
        logins = house.cloud.logins
        await house.read(bank)
        assert house.cloud.logins == logins, "Keystone is not asked over and over"

    play(scene)


def test_silence_is_no_refusal_and_no_proof_that_it_works(
    play: Callable[[Scene], None],
) -> None:
    async def scene(house: House) -> None:
        await house.give("bank", "ac-bank")
        house.cloud.away = 503
        (unknown,) = await house.read(house.node("bank"))
        assert unknown.up is None
        (row,) = await house.store.read(rows.every)
        assert (row.used_us, row.refused_us) == (None, None)
        # What stands before Keystone finds nothing there, and knows no credential of ours.
        house.cloud.away = 404
        await house.read(house.node("bank"))
        (row,) = await house.store.read(rows.every)
        assert (row.used_us, row.refused_us) == (None, None)
        house.cloud.away = 0
        await house.read(house.node("bank"))
        (row,) = await house.store.read(rows.every)
        assert row.used_us is not None

    play(scene)


def test_another_one_of_the_project_takes_over(play: Callable[[Scene], None]) -> None:
    async def scene(house: House) -> None:
        await house.give("bank", "ac-bank")
        await house.trust("bank", "t-bank")
        bank = house.node("bank")
        assert (await house.read(bank))[0].up is True
        house.cloud.revoke("ac-bank")
        assert (await house.read(bank))[0].up is None
        assert (await house.read(bank))[0].up is True
        assert house.asked_of(bank) == {"bank"}

    play(scene)


def test_a_trust_that_was_deleted_is_told_as_such(play: Callable[[Scene], None]) -> None:
    async def scene(house: House) -> None:
        await house.trust("bank", "t-bank")
        bank = house.node("bank")
        assert (await house.read(bank))[0].up is True
        house.cloud.revoke("t-bank")
        (unknown,) = await house.read(bank)
        assert "Keystone refuses the trust t-bank of project bank" in unknown.detail
        assert "the next request of that user renews it" in unknown.detail

    play(scene)


def test_what_was_refused_is_tried_again_and_may_work(play: Callable[[Scene], None]) -> None:
    async def scene(house: House) -> None:
        await house.give("bank", "ac-bank")
        bank = house.node("bank")
        held = house.cloud.credentials.pop("ac-bank")
        assert (await house.read(bank))[0].up is None
        house.cloud.credentials["ac-bank"] = held
        assert (await house.read(bank))[0].up is None
        house.clock.leapt_s += AGAIN_US / 1e6 + 1
        assert (await house.read(bank))[0].up is True
        (stored,) = await house.kept.of(NAME, "bank")
        assert stored.refused_us is None

    play(scene)


def test_a_token_that_ends_is_got_anew(play: Callable[[Scene], None]) -> None:
    async def scene(house: House) -> None:
        await house.give("bank", "ac-bank")
        bank = house.node("bank")
        assert (await house.read(bank))[0].up is True
        house.cloud.end_tokens("ac-bank")
        assert (await house.reboot(bank)).state is ProgressState.RUNNING

    play(scene)


def test_one_that_is_taken_away_is_used_no_more(play: Callable[[Scene], None]) -> None:
    async def scene(house: House) -> None:
        await house.give("bank", "ac-bank")
        bank = house.node("bank")
        assert (await house.read(bank))[0].up is True
        await house.store.write(lambda conn: conn.execute(delete(tables.credentials)))
        house.clock.leapt_s += FRESH_S + 1
        asked = len(house.cloud.asked)
        (unknown,) = await house.read(bank)
        assert "no credential" in unknown.detail
        assert len(house.cloud.asked) == asked

    play(scene)


def test_a_database_that_is_away_stops_no_looking(play: Callable[[Scene], None]) -> None:
    async def scene(house: House) -> None:
        await house.give("bank", "ac-bank")
        bank = house.node("bank")
        assert (await house.read(bank))[0].up is True
        await house.store.close()
        house.clock.leapt_s += FRESH_S + 1
        assert (await house.read(bank))[0].up is True
        # Whoever has not been asked about before cannot be looked up.
        (unknown,) = await house.read(house.node("shop"))
        assert (unknown.up, "database" in unknown.detail) == (None, True)
        with pytest.raises(StoreUnavailable):
            await house.kept.of(NAME, "shop")

    play(scene)


def test_a_lost_key_is_unknown_with_its_name(play: Callable[[Scene], None]) -> None:
    async def scene(house: House) -> None:
        await house.give("bank", "ac-bank")
        (house.folder / "keys").unlink()
        add_key(house.folder / "keys")
        (unknown,) = await house.read(house.node("bank"))
        assert unknown.up is None
        assert "cannot be opened: it was sealed with key" in unknown.detail

    play(scene)


def test_sessions_are_bounded_and_what_is_remembered_is_apart(
    play: Callable[[Scene], None],
) -> None:
    async def scene(house: House) -> None:
        made: list[object] = []

        def make() -> object:
            made.append(object())
            return made[-1]

        choice = Choice(at=house.at, per_project=True)
        projects = Projects(choice, house.clock, make, credentials=house.kept, sessions=2)
        for project in ("a", "b", "a", "c", "a", "b"):
            await house.give(project, f"ac-{project}")
            part = await projects.call(project, lambda _, part: part, CALL_S)
            assert part in made
        # "b" was forgotten for "c"; "a" never.
        assert len(made) == 4
        with pytest.raises(CredentialMissing, match="for none"):
            await projects.call("", lambda _, part: part, CALL_S)

    play(scene)


def test_without_keys_nobody_may_ask_for_each_projects_own(tmp_path: Path) -> None:
    settings = {"cloud": NAME, "credentials": "projects"}
    context = DriverContext(clock=SystemClock(), state_dir=tmp_path, settings=settings)
    with pytest.raises(ConfigError, match=r"credentials\.keys_file"):
        NovaServer(context)


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        pytest.param({"credentials": "mine"}, "must be 'cloud'", id="no such word"),
        pytest.param(
            {"credentials": "projects", "all_projects": True}, "exclude each other", id="of all"
        ),
    ],
)
def test_what_is_wrong_with_a_section(tmp_path: Path, more: dict[str, object], fault: str) -> None:
    settings = {"cloud": NAME, **more}
    context = DriverContext(clock=SystemClock(), state_dir=tmp_path, settings=settings)
    with pytest.raises(ConfigError, match=fault):
        NovaServer(context)


def test_no_log_line_reading_or_answer_shows_a_secret(play: Callable[[Scene], None]) -> None:
    async def scene(house: House) -> None:
        bank = house.node("bank")
        await house.give("bank", "ac-bank")
        told: list[object] = [*await house.read(bank), await house.reboot(bank)]
        house.cloud.revoke("ac-bank")
        # Not that a real one would.
        house.cloud.refuses = f"what is {CANARY}?"
        told += [*await house.read(bank), await house.reboot(bank)]
        assert "what is ***?" in repr(told)
        told += [await house.nova.capture(bank, deadline_s=CALL_S)]
        told += [await house.nova.describe(bank, deadline_s=CALL_S)]
        told += [await house.kept.of(NAME, "bank")]
        assert CANARY not in repr(told)

    with logged() as said:
        play(scene)
    assert "credential refused" in said.getvalue()
    assert CANARY not in said.getvalue()
