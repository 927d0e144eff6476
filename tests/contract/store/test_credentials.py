"""Credentials at rest: sealed in every byte, one of a kind, never lost to a key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select, update
from tests.contract.store.support import HandClock, place

from yaffle.engine.runtime.stored_credentials import StoredCredentials, sealed_row
from yaffle.integrations.secret_box import KeyFile, SealBroken, add_key
from yaffle.model.credentials import Credential, CredentialKind
from yaffle.store import credentials as rows
from yaffle.store import leases, tables
from yaffle.store.database import Store, open_store

CANARY = "canary-5f1d9c-secret"
NOW_US = 1_700_000_000_000_000
HOUR_US = 3_600_000_000

Scene = Callable[["House"], Awaitable[None]]


class House:
    """A database, a file of keys, and what is made of both."""

    def __init__(self, store: Store, keys: Path, clock: HandClock) -> None:
        self.store, self.keys, self.clock = store, keys, clock
        self.kept = StoredCredentials(store, KeyFile(keys), clock)

    async def rows(self) -> list[rows.CredentialRow]:
        return list(await self.store.read(rows.every))


@pytest.fixture(params=["file", "postgresql", "mariadb"])
def play_everywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Scene], None]:
    """Play a scene on each kind of database."""
    return _playing(place(request, tmp_path), tmp_path / "keys")


@pytest.fixture
def play(tmp_path: Path) -> Callable[[Scene], None]:
    """Play a scene in a house of its own."""
    return _playing("sqlite://", tmp_path / "keys")


def _playing(where: str, keys: Path) -> Callable[[Scene], None]:
    add_key(keys)

    @asynccontextmanager
    async def house() -> AsyncIterator[House]:
        clock = HandClock(NOW_US)
        async with open_store(where, clock=clock, runner="inline") as store:
            yield House(store, keys, clock)

    def run(scene: Scene) -> None:
        async def whole() -> None:
            async with house() as one:
                await scene(one)

        asyncio.run(whole())

    return run


def credential(**changes: object) -> Credential:
    made = Credential(
        id="",
        cloud="prod",
        project="shop",
        user="ann",
        kind=CredentialKind.APPLICATION_CREDENTIAL,
        reference="ac-1",
        secret=CANARY,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


TRUST = {"kind": CredentialKind.TRUST, "secret": ""}


def test_it_is_sealed_in_the_row_and_opened_for_its_project(
    play_everywhere: Callable[[Scene], None],
) -> None:
    async def scene(house: House) -> None:
        assert await house.kept.put(credential()) is False
        (row,) = await house.rows()
        assert CANARY not in repr(row)
        (found,) = await house.kept.of("prod", "shop")
        assert (found.secret, found.reference, found.id) == (CANARY, "ac-1", row.id)
        assert CANARY not in repr(found)
        assert await house.kept.of("prod", "bank") == []
        assert await house.kept.of("other", "shop") == []

    play_everywhere(scene)


def test_no_byte_of_the_database_shows_it(tmp_path: Path) -> None:
    add_key(tmp_path / "keys")

    async def scene() -> None:
        clock = HandClock(NOW_US)
        async with open_store(f"sqlite:///{tmp_path / 'y.db'}", clock=clock) as store:
            kept = StoredCredentials(store, KeyFile(tmp_path / "keys"), clock)
            await kept.put(credential())
            (found,) = await kept.of("prod", "shop")
            await kept.refused(found, "401")

    asyncio.run(scene())
    files = [path for path in tmp_path.iterdir() if path.name.startswith("y.db")]
    assert files
    assert not any(CANARY.encode() in path.read_bytes() for path in files)


def test_a_row_that_was_given_to_another_project_opens_for_nobody(
    play: Callable[[Scene], None],
) -> None:
    async def scene(house: House) -> None:
        await house.kept.put(credential())
        stolen = update(tables.credentials).values(project="thief")
        await house.store.write(lambda conn: conn.execute(stolen))
        with pytest.raises(SealBroken, match="sealed for something else"):
            await house.kept.of("prod", "thief")

    play(scene)


def test_another_one_of_the_same_user_takes_its_place(play: Callable[[Scene], None]) -> None:
    async def scene(house: House) -> None:
        await house.kept.put(credential())
        assert await house.kept.put(credential(reference="ac-2", secret="new")) is True
        (found,) = await house.kept.of("prod", "shop")
        assert (found.reference, found.secret) == ("ac-2", "new")

    play(scene)


def test_a_trust_that_is_replaced_stays_until_it_is_deleted_and_is_not_used(
    play_everywhere: Callable[[Scene], None],
) -> None:
    async def scene(house: House) -> None:
        assert await house.kept.put(credential(reference="t-1", **TRUST)) is False
        house.clock.at_us += 1_000_000
        assert await house.kept.put(credential(reference="t-2", **TRUST)) is True
        assert await house.kept.put(credential(reference="t-2", **TRUST)) is True
        house.clock.at_us += 1_000_000
        assert await house.kept.put(credential(reference="t-3", **TRUST)) is True
        assert await _order(house) == ["t-3"]
        assert await _old(house) == ["t-1", "t-2"]
        assert await _old(house, "bob") == []
        await house.kept.not_deleted("prod", "shop", "ann", "t-1", "because")
        (told,) = [row for row in await house.rows() if row.reference == "t-1"]
        assert told.refused_why == "not deleted in the cloud: because"
        await house.kept.deleted("prod", "shop", "ann", "t-1")
        assert await _old(house) == ["t-2"]
        # With the newest taken away there is none, and none that could not be opened either.
        (newest,) = await house.kept.of("prod", "shop")
        await house.store.write(lambda conn: rows.remove(conn, newest.id))
        assert await _order(house) == []

    play_everywhere(scene)


def test_since_when_a_trust_is_replaced_is_told_by_the_databases_clock(
    play_everywhere: Callable[[Scene], None],
) -> None:
    async def scene(house: House) -> None:
        await house.kept.put(credential(reference="t-1", **TRUST))
        # Made an hour ago by a process that was frozen, or whose clock is wrong.
        row = sealed_row(
            KeyFile(house.keys), credential(reference="t-2", **TRUST), house.clock.at_us - HOUR_US
        )
        await house.store.write(lambda conn: rows.put(conn, row))
        (old,) = await house.kept.superseded("prod", "shop", "ann")
        assert (old.reference, 0 <= old.since_s < 60) == ("t-1", True)

    play_everywhere(scene)


def test_nobody_is_told_to_delete_the_trust_that_is_in_use(
    play_everywhere: Callable[[Scene], None],
) -> None:
    async def scene(house: House) -> None:
        for reference in ("t-1", "t-2", "t-1"):
            await house.kept.put(credential(reference=reference, **TRUST))
        assert await _order(house) == ["t-1"]
        assert await _old(house) == ["t-2"]
        # Nor where rows say both, as after a copy was put back.
        ident = rows.superseded_ident("prod", "shop", "ann", "t-2")
        twice = update(tables.credentials).values(reference="t-1")
        await house.store.write(lambda c: c.execute(twice.where(tables.credentials.c.id == ident)))
        assert await _old(house) == []
        assert await _abandoned(house) == []

    play_everywhere(scene)


def test_what_is_left_is_found_by_whoever_comes_along_and_rests_after_a_try(
    play_everywhere: Callable[[Scene], None],
) -> None:
    async def scene(house: House) -> None:
        for reference in ("t-1", "t-2", "t-3"):
            await house.kept.put(credential(reference=reference, **TRUST))
            house.clock.at_us += 1_000_000
        await house.kept.put(credential(cloud="other", reference="o-1", **TRUST))
        await house.kept.put(credential(cloud="other", reference="o-2", **TRUST))
        assert await _abandoned(house, for_s=3600) == []
        assert await _abandoned(house) == ["t-1", "t-2"]
        assert await _abandoned(house, most=1) == ["t-1"]
        house.clock.at_us = await house.store.read(leases.now)
        await house.kept.not_deleted("prod", "shop", "ann", "t-1", "because")
        assert await _abandoned(house, rest_s=3600) == ["t-2"]
        # Whose turn was longest ago comes first, so that no one stands in the others' way.
        assert await _abandoned(house, rest_s=-60) == ["t-2", "t-1"]

    play_everywhere(scene)


async def _old(house: House, user: str = "ann") -> list[str]:
    return [one.reference for one in await house.kept.superseded("prod", "shop", user)]


async def _abandoned(
    house: House, *, for_s: float = 0.0, rest_s: float = 0.0, most: int = 10
) -> list[str]:
    found = await house.kept.abandoned(["prod"], for_s=for_s, rest_s=rest_s, most=most)
    return [row.reference for row in found]


def test_what_works_comes_first_and_what_was_refused_last(
    play_everywhere: Callable[[Scene], None],
) -> None:
    async def scene(house: House) -> None:
        await house.kept.put(credential(reference="t-1", **TRUST))
        await house.kept.put(credential(reference="t-2", user="bob", **TRUST))
        await house.kept.put(credential())
        order = await _order(house)
        assert (order[0], sorted(order[1:])) == ("ac-1", ["t-1", "t-2"])
        first = (await house.kept.of("prod", "shop"))[0]
        await house.kept.refused(first, "revoked")
        assert (await _order(house))[-1] == "ac-1"
        last = (await house.kept.of("prod", "shop"))[-1]
        assert (last.refused_us, last.refused_why) == (NOW_US, "revoked")
        await house.kept.used(last)
        again = (await house.kept.of("prod", "shop"))[0]
        assert (again.reference, again.refused_us, again.refused_why) == ("ac-1", None, "")

    play_everywhere(scene)


async def _order(house: House) -> list[str]:
    return [one.reference for one in await house.kept.of("prod", "shop")]


def test_a_note_about_the_one_before_does_not_mark_the_new_one(
    play: Callable[[Scene], None],
) -> None:
    async def scene(house: House) -> None:
        await house.kept.put(credential())
        (old,) = await house.kept.of("prod", "shop")
        await house.kept.put(credential(reference="ac-2"))
        await house.kept.refused(old, "revoked")
        (found,) = await house.kept.of("prod", "shop")
        assert found.refused_us is None

    play(scene)


def test_a_lost_key_is_told_and_deletes_nothing(play: Callable[[Scene], None]) -> None:
    async def scene(house: House) -> None:
        await house.kept.put(credential())
        saved = house.keys.read_text()
        house.keys.unlink()
        with pytest.raises(SealBroken, match="No such file"):
            await house.kept.of("prod", "shop")
        add_key(house.keys)
        with pytest.raises(SealBroken, match="application_credential ac-1 of project shop"):
            await house.kept.of("prod", "shop")
        assert len(await house.rows()) == 1
        house.keys.write_text(house.keys.read_text() + saved)
        assert [one.secret for one in await house.kept.of("prod", "shop")] == [CANARY]

    play(scene)


def test_of_two_one_that_can_be_opened_is_enough(play: Callable[[Scene], None]) -> None:
    async def scene(house: House) -> None:
        await house.kept.put(credential())
        house.keys.unlink()
        add_key(house.keys)
        await house.kept.put(credential(reference="t-1", **TRUST))
        assert await _order(house) == ["t-1"]

    play(scene)


def test_a_kind_of_a_later_version_is_told(play: Callable[[Scene], None]) -> None:
    async def scene(house: House) -> None:
        await house.kept.put(credential())
        (row,) = await house.rows()
        keys = KeyFile(house.keys)
        sealed = keys.seal({"secret": CANARY}, ("prod", "shop", "ann", "oath", "ac-1"))
        later = replace(row, kind="oath", sealed=sealed.blob, key_id=sealed.key_id)
        await house.store.write(lambda conn: rows.put(conn, later))
        with pytest.raises(SealBroken, match="does not know"):
            await house.kept.of("prod", "shop")

    play(scene)


def test_a_seal_is_not_replaced_under_somebodys_hands(play: Callable[[Scene], None]) -> None:
    async def scene(house: House) -> None:
        await house.kept.put(credential())
        (row,) = await house.rows()
        await house.kept.put(credential(reference="ac-2"))
        done = await house.store.write(
            lambda conn: rows.sealed_anew(conn, row, sealed="of ac-1", key_id="k")
        )
        assert done is False
        blobs = select(tables.credentials.c.sealed)
        assert "of ac-1" not in await house.store.read(lambda c: c.execute(blobs).scalars().all())

    play(scene)
