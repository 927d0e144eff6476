"""Users let us act for them with their first change; who cannot is told how, or not held up at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.contract.projects.cloud import NAME
from tests.contract.projects.trusting import TOKEN, House, KilledError, Scene, playing

from yaffle.api.auth.keystone.trusts import FRESH_S, Trusts, trusts_of
from yaffle.config import Settings
from yaffle.errors import DependencyError, Forbidden, StoreUnavailable
from yaffle.integrations.openstack import CloudsYaml
from yaffle.model.credentials import Credential, CredentialKind


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Callable[[Scene], None]]:
    """Play a scene in a house of its own."""
    with playing(tmp_path) as run:
        yield run


def test_the_first_change_makes_one_with_the_users_roles(play: Callable[[Scene], None]) -> None:
    async def scene(house: House) -> None:
        ann = house.known()
        await house.trusts.ensured(ann)
        assert await house.held() == [("ann", "trust-1")]
        (key,) = await house.kept.key_ids()
        assert house.cloud.made == [
            {
                "yaffle": f"{key} 1",
                "trustor_user_id": "ann",
                "trustee_user_id": "user-service",
                "project_id": "shop",
                "impersonation": True,
                "allow_redelegation": False,
                "roles": [{"id": "1"}],
            }
        ]
        assert TOKEN not in repr(ann)
        for leap_s in (0.0, FRESH_S + 1):
            house.clock.leapt_s += leap_s
            await house.trusts.ensured(house.known())
        assert len(house.cloud.made) == 1, "it is looked up afterwards"

    play(scene)


def test_each_user_and_project_has_one_of_its_own(play: Callable[[Scene], None]) -> None:
    async def scene(house: House) -> None:
        for user, project in (("ann", "shop"), ("bob", "shop"), ("ann", "bank")):
            await house.trusts.ensured(house.known(user, project))
        assert sorted(await house.held("shop")) == [("ann", "trust-1"), ("bob", "trust-2")]
        assert await house.held("bank") == [("ann", "trust-3")]

    play(scene)


def test_two_first_requests_make_one(play: Callable[[Scene], None]) -> None:
    async def scene(house: House) -> None:
        ann = house.known()
        async with asyncio.TaskGroup() as tasks:
            for _ in range(5):
                tasks.create_task(house.trusts.ensured(ann))
        assert len(house.cloud.made) == 1

    play(scene)


def test_a_token_that_makes_none_is_told_what_to_do(play: Callable[[Scene], None]) -> None:
    async def scene(house: House) -> None:
        with pytest.raises(Forbidden, match="not allowed for managing trusts") as error:
            await house.trusts.ensured(house.known(may=False))
        assert "unrestricted" in error.value.hint
        assert TOKEN not in str(error.value)
        assert await house.held() == []
        # With what somebody of the project has handed over, it goes on.
        await house.trusts.ensured(house.known("bob"))
        await house.trusts.ensured(house.known(may=False))

    play(scene)


def test_one_that_was_refused_is_renewed(play: Callable[[Scene], None]) -> None:
    async def scene(house: House) -> None:
        await house.trusts.ensured(house.known())
        await house.trusts_anew()
        assert await house.held() == [("ann", "trust-2")]
        assert (await house.kept.of(NAME, "shop"))[0].refused_us is None

    play(scene)


def test_while_keystone_is_away_only_who_has_one_goes_on(
    play: Callable[[Scene], None], tmp_path: Path
) -> None:
    async def scene(house: House) -> None:
        nowhere = house.cloud
        nowhere.port, port = 1, nowhere.port
        at = CloudsYaml(name=NAME, file=nowhere.clouds_yaml(tmp_path / "away.yaml"))
        nowhere.port = port
        away = Trusts(house.kept, {NAME: at}, house.clock)
        with pytest.raises(DependencyError, match="cannot be asked to let Yaffle act"):
            await away.ensured(house.known())
        await house.kept.put(
            Credential(
                id="", cloud=NAME, project="shop", user="bob",
                kind=CredentialKind.APPLICATION_CREDENTIAL, reference="ac", secret="s",
            )
        )  # fmt: skip
        await away.ensured(house.known())

    play(scene)


def test_one_that_could_not_be_stored_is_stored_later_and_not_made_again(
    play: Callable[[Scene], None],
) -> None:
    async def scene(house: House) -> None:
        house.kept.full = True
        for _ in range(3):
            with pytest.raises(StoreUnavailable):
                await house.trusts.ensured(house.known())
        assert len(house.cloud.made) == 1, "of the others nobody would know"
        house.kept.full = False
        await house.trusts.ensured(house.known())
        assert await house.held() == [("ann", "trust-1")]
        # Once it is stored it is no longer left: what is refused later is renewed.
        await house.trusts_anew()
        assert await house.held() == [("ann", "trust-2")]
        # And not for ever: by now its user may have other roles.
        house.kept.full = True
        with pytest.raises(StoreUnavailable):
            await house.trusts.ensured(house.known("bob"))
        house.kept.full = False
        house.cloud.roles = ["2"]
        await house.trusts.ensured(house.known("bob"))
        assert ("bob", "trust-4") in await house.held()

    play(scene)


async def dies(house: House, at: Trusts) -> None:
    """Let a process die between Keystone's yes and the row that says so."""
    house.kept.killed = True
    with pytest.raises(KilledError):
        await at.ensured(house.known())
    house.kept.killed = False


def test_one_whose_maker_died_before_it_was_stored_is_taken_by_the_next(
    play: Callable[[Scene], None],
) -> None:
    async def scene(house: House) -> None:
        for _ in range(3):
            await dies(house, house.process())
        assert len(house.cloud.made) == 1, "of the others nobody would ever know"
        await house.process().ensured(house.known())
        assert await house.held() == [("ann", "trust-1")]
        # It is a trust as any other: once Keystone refuses it, it is not taken again.
        await house.trusts_anew()
        assert await house.held() == [("ann", "trust-2")]
        await house.trusts_anew()
        assert await house.held() == [("ann", "trust-3")], "nor is one that was replaced"

    play(scene)


@pytest.mark.parametrize(
    "other",
    [
        {"yaffle": "other-key 1"},
        {"yaffle": None},
        {"yaffle": {"of": "somebody"}},
        {"trustee_user_id": "another-service"},
        {"project_id": "bank"},
    ],
    ids="-".join,
)
def test_one_that_somebody_else_has_is_left_to_them(
    play: Callable[[Scene], None], other: dict[str, Any]
) -> None:
    async def scene(house: House) -> None:
        await dies(house, house.process())
        house.cloud.made[0] |= other
        await house.trusts.ensured(house.known())
        assert await house.held() == [("ann", "trust-2")]

    play(scene)


def test_one_with_other_roles_than_the_user_has_by_now_is_not_taken(
    play: Callable[[Scene], None],
) -> None:
    async def scene(house: House) -> None:
        await dies(house, house.process())
        house.cloud.roles = ["1", "2"]
        await house.trusts.ensured(house.known())
        assert await house.held() == [("ann", "trust-2")]
        assert house.cloud.made[1]["roles"] == [{"id": "1"}, {"id": "2"}]

    play(scene)


def test_there_is_nothing_to_make_where_nobody_acts_for_projects(
    play: Callable[[Scene], None], tmp_path: Path
) -> None:
    async def scene(house: House) -> None:
        settings = Settings(state_dir=tmp_path)
        assert trusts_of(settings, house.store, house.clock) is None

    play(scene)


def test_what_acts_in_a_users_name_ends_when_keystone_refuses_their_trust(
    play: Callable[[Scene], None],
) -> None:
    async def scene(house: House) -> None:
        ann, bob = house.known(), house.known("bob")
        assert "no credential" in await house.trusts.gone(ann.who)
        await house.trusts.ensured(bob)
        # Of Ann nothing is known, and her project can be acted for.
        assert await house.trusts.gone(ann.who) == ""
        await house.trusts.ensured(ann)
        assert await house.trusts.gone(ann.who) == ""
        await house.refused()
        assert "Keystone refuses the trust" in await house.trusts.gone(ann.who)
        assert await house.trusts.gone(bob.who) == "", "that is another one's"

    play(scene)
