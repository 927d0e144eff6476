"""What the API asks of its engine: answered one at a time, at a bounded price, and ending nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import cast

import pytest
from tests.given import Given

from yaffle.api.diagnostics.report import Check
from yaffle.cli.serve import link
from yaffle.cli.serve.link import ASK_S, REST_SHARE, Asked, EngineLink
from yaffle.engine.explain.answer import LastWord
from yaffle.engine.runtime.clock import SystemClock
from yaffle.errors import EngineUnavailable
from yaffle.model.ids import NodeId


class HandClock(SystemClock):
    """Moves by what is slept, and by what a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.at_s = 100.0
        self.slept: list[float] = []

    def monotonic_s(self) -> float:
        return self.at_s

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.at_s += seconds
        await asyncio.sleep(0)


class Facts:
    """An engine whose detectors fail, and whose numbers take half a second."""

    def __init__(self, clock: HandClock) -> None:
        self.clock = clock

    def vital(self) -> Iterable[Check]:
        return ()

    async def checks(self, causes: Sequence[Check]) -> Sequence[Check]:
        raise KeyError("a detector of somebody else's")

    async def unseen(self) -> Sequence[str] | None:
        return ["n1"]

    async def last_words(self, node_id: NodeId) -> Mapping[str, LastWord] | None:
        return {"URL": LastWord(code="L4-OK")} if node_id == "n1" else None

    async def metrics(self) -> bytes:
        self.clock.at_s += 0.5
        return b"yaffle 1"


async def answers(asked: Asked, facts: Facts, count: int) -> list[link.Answer]:
    found: list[link.Answer] = []
    said: AsyncIterator[link.Answer] = asked.answer(lambda: facts)
    async for one in said:
        found.append(one)
        if len(found) == count:
            return found
    raise AssertionError("it never ends")


def test_a_question_that_fails_has_no_answer_and_the_next_one_has() -> None:
    clock = HandClock()
    asked = Asked(clock)
    asked.put(link.Ask(1, "checks", link.encoded([])))
    asked.put(link.Ask(2, "unseen", b""))
    found = asyncio.run(answers(asked, Facts(clock), 2))
    assert [(one.number, one.body is None) for one in found] == [(1, True), (2, False)]


def test_the_engine_rests_after_each_and_drops_what_nobody_waits_for() -> None:
    clock = HandClock()
    asked = Asked(clock)
    for number in range(3):
        asked.put(link.Ask(number, "metrics", b""))
    late = asyncio.run(answers(asked, Facts(clock), 1))
    assert late[0].number == 0
    clock.at_s += 0.5 * REST_SHARE
    asked.put(link.Ask(9, "unseen", b""))
    # The other two are older than anybody waits.
    assert clock.at_s - 100.0 > ASK_S
    assert [one.number for one in asyncio.run(answers(asked, Facts(clock), 1))] == [9]


def test_there_is_room_for_so_many_questions_and_no_more() -> None:
    asked = Asked(HandClock())
    for number in range(link.ASKS_MAX + 10):
        asked.put(link.Ask(number, "unseen", b""))


class Nowhere:
    def write(self, data: bytes) -> None:
        """Say it to nobody."""


def test_many_who_ask_a_silent_engine_wait_together_and_not_in_a_row() -> None:
    async def ask() -> float:
        engine = EngineLink(cast("asyncio.StreamWriter", Nowhere()), SystemClock())
        with Given() as given:
            began_s = given.s
            found = await asyncio.gather(
                *(engine.metrics() for _ in range(6)), return_exceptions=True
            )
            assert all(isinstance(one, EngineUnavailable) for one in found)
            return given.s - began_s

    assert asyncio.run(ask()) < 2.5 * ASK_S


def test_what_the_engine_could_not_answer_is_said() -> None:
    async def ask() -> None:
        engine = EngineLink(cast("asyncio.StreamWriter", Nowhere()), SystemClock())
        asking = asyncio.create_task(engine.unseen())
        await asyncio.sleep(0)
        engine.hear(link.Answer(1, None))
        with pytest.raises(EngineUnavailable, match="its log"):
            await asking

    asyncio.run(ask())
