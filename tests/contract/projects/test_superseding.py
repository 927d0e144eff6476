"""A trust in whose place there is a newer one is deleted in Keystone, and nobody waits for that."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from tests.contract.projects.cloud import NAME
from tests.contract.projects.logged import logged
from tests.contract.projects.trusting import TOKEN, House, Scene, playing

from yaffle.api.auth.keystone.trust_rotation import ABANDONED_S, QUEUE, REST_S, SETTLED_S
from yaffle.api.auth.keystone.trusts import Trusts
from yaffle.model.credentials import Credential, CredentialKind
from yaffle.store import credentials as rows
from yaffle.store.installation_facts import TIDY_US

KIND = "superseded_trust"


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Callable[[Scene], None]]:
    """Play a scene in a house of its own."""
    with playing(tmp_path) as run:
        yield run


async def left(house: House) -> list[str]:
    """Return what the doctor would name, in a while."""
    later_us = house.clock.now_us() + TIDY_US
    return list(await house.store.read(lambda conn: rows.left_over(conn, later_us)))


def test_it_is_deleted_with_its_users_token_and_no_other_one(
    play: Callable[[Scene], None],
) -> None:
    async def scene(house: House) -> None:
        await house.trusts.ensured(house.known())
        await house.trusts.ensured(house.known("bob"))
        await house.trusts_anew()
        assert sorted(await house.held()) == [("ann", "trust-3"), ("bob", "trust-2")]
        assert (await house.rows())["trust-1"].kind == KIND
        assert await left(house) == ["trust-1"]

        async def gone() -> bool:
            return "trust-1" not in await house.rows()

        async with house.tidying():
            await house.until(gone)
        assert set(house.cloud.trusts) == {"trust-2", "trust-3"}
        assert house.cloud.deleted == [("ann", "trust-1")]
        assert await left(house) == []

    play(scene)


def test_nobody_waits_for_it(play: Callable[[Scene], None]) -> None:
    async def scene(house: House) -> None:
        await house.trusts.ensured(house.known())
        house.cloud.deletes.clear()
        async with house.tidying():
            async with asyncio.timeout(60):
                await house.trusts_anew()
                await house.trusts.ensured(house.known("bob"))
            assert sorted(await house.held()) == [("ann", "trust-2"), ("bob", "trust-3")]
            assert "trust-1" in house.cloud.trusts
            house.cloud.deletes.set()

    play(scene)


def test_what_cannot_be_deleted_is_told_and_tried_again(play: Callable[[Scene], None]) -> None:
    async def scene(house: House) -> None:
        await house.trusts.ensured(house.known())
        house.cloud.keeps = "You are not authorized to do that."

        async def told() -> bool:
            return "not authorized" in (await house.rows())["trust-1"].refused_why

        async def gone() -> bool:
            return "trust-1" not in await house.rows()

        async with house.tidying():
            await house.trusts_anew()
            await house.until(told)
            assert await house.held() == [("ann", "trust-2")], "it is never used"
            assert await left(house) == ["trust-1"]
            house.cloud.keeps = ""
            await house.changes()
            await house.until(gone)
        assert set(house.cloud.trusts) == {"trust-2"}

    with logged() as said:
        play(scene)
    assert "trust not deleted" in said.getvalue()
    assert TOKEN not in said.getvalue()


def test_one_that_its_user_has_deleted_is_forgotten(play: Callable[[Scene], None]) -> None:
    async def scene(house: House) -> None:
        await house.trusts.ensured(house.known())
        house.cloud.revoke("trust-1")

        async def gone() -> bool:
            return set(await house.rows()) == {"trust-2"}

        async with house.tidying():
            await house.trusts_anew()
            await house.until(gone)

    play(scene)


def test_the_time_counts_from_its_replacement_whoever_replaced_it(
    play: Callable[[Scene], None],
) -> None:
    async def scene(house: House) -> None:
        here, there = house.process(), house.process()
        await here.ensured(house.known())
        async with house.tidying(here):
            # Here trust-1 is replaced, and Ann's token waits for it to be let go of.
            await house.trusts_anew(here)
            replaced_s = house.clock.monotonic_s()
            await house.until(held(house, 2, here))
            # Before that is over, trust-2 is replaced by another process; half of it is real time, for
            # this and for what comes after it on a busy machine.
            house.clock.leapt_s += SETTLED_S / 2
            await house.refused()
            await there.ensured(house.known())
            assert await house.held() == [("ann", "trust-3")]
            # Not back, where a busy machine has taken those seconds already.
            left_s = replaced_s + SETTLED_S - house.clock.monotonic_s()
            house.clock.leapt_s += max(0.0, left_s)
            await house.until(gone(house, "trust-1"))
            # Its row is read here, and it is let be: somebody may have looked it up a moment ago.
            await house.until(held(house, 3, here))
            assert set(house.cloud.trusts) == {"trust-2", "trust-3"}
            assert house.cloud.deleted == [("ann", "trust-1")]
            house.clock.leapt_s += SETTLED_S
            await house.until(gone(house, "trust-2"))
        assert set(house.cloud.trusts) == {"trust-3"}

    play(scene)


def test_of_two_that_were_made_at_once_one_is_deleted_though_nobody_refused_it(
    play: Callable[[Scene], None],
) -> None:
    async def scene(house: House) -> None:
        here, there = house.process(), house.process()
        # Each asks Keystone before the other has written down what it has.
        house.cloud.together = threading.Barrier(2)
        await asyncio.gather(here.ensured(house.known()), there.ensured(house.known()))
        ((_, newest),) = await house.held()
        (old,) = set(house.cloud.trusts) - {newest}
        async with house.tidying(here, there):
            await house.until(held(house, 2, here, there))
            assert old in house.cloud.trusts
            house.clock.leapt_s += SETTLED_S
            await house.until(gone(house, old))
        assert set(house.cloud.trusts) == {newest}

    play(scene)


def test_one_that_nobody_comes_back_for_is_deleted_by_itself(
    play: Callable[[Scene], None],
) -> None:
    async def scene(house: House) -> None:
        await house.trusts.ensured(house.known())
        await house.trusts_anew()
        # Its process has died, and Ann never changes anything again.
        house.cloud.people.clear()
        house.clock.leapt_s += ABANDONED_S / 2
        async with house.tidying(house.process()):
            await house.clock.sleep(0.2)
            assert house.cloud.deleted == [], "a process that lives has its user's token"
            house.clock.leapt_s += ABANDONED_S
            await house.until(gone(house, "trust-1"))
        assert house.cloud.by_itself == ["trust-1"]
        assert set(house.cloud.trusts) == {"trust-2"}
        assert await house.held() == [("ann", "trust-2")]

    play(scene)


def test_what_keystone_gives_no_token_for_is_told_and_deleted_once_it_does(
    play: Callable[[Scene], None],
) -> None:
    async def scene(house: House) -> None:
        await house.trusts.ensured(house.known())
        await house.trusts_anew()
        house.cloud.people.clear()
        house.cloud.lame.add("trust-1")
        house.clock.leapt_s += ABANDONED_S

        async def told() -> bool:
            return "requires authentication" in (await house.rows())["trust-1"].refused_why

        async with house.tidying(house.process()):
            await house.until(told)
            logins = house.cloud.logins
            house.cloud.lame.clear()
            house.clock.leapt_s += REST_S / 2
            await house.clock.sleep(0.2)
            assert house.cloud.logins == logins, "it is not asked for again and again"
            house.clock.leapt_s += REST_S
            await house.until(gone(house, "trust-1"))
        assert house.cloud.by_itself == ["trust-1"]

    play(scene)


def test_one_that_its_user_has_deleted_is_forgotten_by_whoever_comes_along(
    play: Callable[[Scene], None],
) -> None:
    async def scene(house: House) -> None:
        await house.trusts.ensured(house.known())
        await house.trusts_anew()
        house.cloud.revoke("trust-1")
        house.clock.leapt_s += ABANDONED_S
        async with house.tidying(house.process()):
            await house.until(gone(house, "trust-1"))
        assert house.cloud.deleted == []

    play(scene)


def gone(house: House, reference: str) -> Callable[[], Awaitable[bool]]:
    """Return what asks whether nothing is kept of a trust any more."""

    async def asked() -> bool:
        return reference not in await house.rows()

    return asked


def held(house: House, looks: int, *processes: Trusts) -> Callable[[], Awaitable[bool]]:
    """Return what asks whether a user's token is held, after so many looks at what there is."""

    async def asked() -> bool:
        return house.kept.looked >= looks and any(len(one.superseded) for one in processes)

    return asked


def test_what_nobody_expected_does_not_end_it(play: Callable[[Scene], None]) -> None:
    async def scene(house: House) -> None:
        await house.trusts.ensured(house.known())

        async def gone() -> bool:
            return "trust-1" not in await house.rows()

        async with house.tidying():
            # Of a cloud that there is none of: nothing of ours expects that.
            await house.kept.put(elsewhere("t-1"))
            await house.kept.put(elsewhere("t-2"))
            house.trusts.superseded.offer("elsewhere", house.known())
            await house.trusts_anew()
            await house.until(gone)

    with logged() as said:
        play(scene)
    assert "superseded trusts not deleted" in said.getvalue()
    assert TOKEN not in said.getvalue()


def elsewhere(reference: str) -> Credential:
    return Credential(
        id="",
        cloud="elsewhere",
        project="shop",
        user="ann",
        kind=CredentialKind.TRUST,
        reference=reference,
        secret="",
    )


def test_those_who_wait_are_bounded(play: Callable[[Scene], None]) -> None:
    async def scene(house: House) -> None:
        await house.trusts.ensured(house.known())
        await house.trusts_anew()
        queue = house.trusts.superseded
        for number in range(2 * QUEUE):
            queue.offer(NAME, house.known(f"user-{number}"))
        assert len(queue) == QUEUE

    play(scene)
